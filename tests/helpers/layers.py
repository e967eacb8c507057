"""Layers of every kind for tests; `python -m tests.helpers.layers FOLDER` compiles and exports them."""

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn

from csprop import CSPLayer

KINDS: dict[str, dict[str, Any]] = {
    "resonator": {},
    "rotor": {"kind": "rotor"},
    "router": {"kind": "router", "maps": 3},
    "counter": {"kind": "counter"},
    "switch": {"kind": "switch"},
    "paper": {"kind": "paper"},
    "rotor of order 3": {"kind": "rotor", "order": 3},
    "paper with sums": {"kind": "paper", "angle": "accumulated", "decay": "exp", "rotate": "input"},
}
FEATURES, WIDTH, TOKENS, INPUTS = 6, 4, 5, 2


def layer(name: str, seed: int = 3, **more: Any) -> CSPLayer:
    """A layer of a kind, not in training."""
    options = {"depth": 2, "generator": Generator().manual_seed(seed)} | KINDS[name] | more
    return CSPLayer(FEATURES, WIDTH, **options).eval()


def features(*sizes: int, seed: int = 1) -> Tensor:
    return torch.randn(*sizes, FEATURES, generator=Generator().manual_seed(seed))


def tokens(*sizes: int, seed: int = 1) -> Tensor:
    return torch.randint(TOKENS, sizes, generator=Generator().manual_seed(seed))


class Net(nn.Module):
    """A layer between two of torch's."""

    def __init__(self, inside: CSPLayer) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.before, self.inside, self.after = (
            nn.Linear(INPUTS, FEATURES),
            inside,
            nn.Linear(FEATURES, 3),
        )

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        y, last = self.inside(self.before(x), state)
        return self.after(y), last


class Abreast(nn.Module):
    """A layer of every kind, each of which is given the same."""

    def __init__(self) -> None:
        super().__init__()
        self.every = nn.ModuleDict({name: Net(layer(name, depth=1)) for name in KINDS})

    def forward(self, x: Tensor) -> list[Tensor]:
        return [each for net in self.every.values() for each in net(x)]


def gradients(net: Any, x: Tensor) -> list[Tensor]:
    """Of a sum over what a layer gives, and the sum itself."""
    x = x.detach().clone().requires_grad_()
    loss = torch.stack([each.square().mean() for each in net(x)]).sum()
    given = [x, *net.parameters()]
    found = torch.autograd.grad(loss, given, allow_unused=True)
    return [loss.detach(), *(each for each in found if each is not None)]


def compiled(net: nn.Module, x: Sequence[Tensor], backend: str) -> None:
    """Batches of several sizes and lengths by one program, forward and back."""
    from torch._dynamo.testing import CompileCounterWithBackend

    torch._dynamo.reset()
    programs, made = CompileCounterWithBackend(backend), []
    together = torch.compile(net, backend=programs, fullgraph=True, dynamic=True)
    for each in x:
        torch.testing.assert_close(gradients(together, each), gradients(net, each))
        made.append(programs.frame_count)
    assert made[0] == made[-1], made


def exported(net: nn.Module, x: Tensor, folder: Path) -> None:
    """A program for any batch and length, and what the network gives."""
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("time")}
    torch.export.save(
        torch.export.export(net, (x[:3, :11].contiguous(),), dynamic_shapes=(sizes,)),
        folder / "net.pt2",
    )
    torch.save([x, [each.detach() for each in net(x)]], folder / "net.pt")


if __name__ == "__main__":
    warnings.simplefilter("error")
    # The first batch is of no size that a tensor of a layer has: torch would take them for one size.
    batches = [
        torch.randn(*sizes, INPUTS, generator=Generator().manual_seed(2)).double()
        for sizes in ((5, 11), (2, 7), (7, 30))
    ]
    compiled(Abreast().double(), batches, "eager")
    compiled(Net(layer("resonator", depth=1)).double(), batches, "aot_eager")
    exported(Abreast().double(), batches[2], Path(sys.argv[1]))
