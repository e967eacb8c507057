"""Models and layers of every kind, run in one way: `run(net, x, state, reset)` returns y and the state.

`python -m tests.helpers.recurrent FOLDER` compiles and exports layers in a process of its own.
"""

import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn

from csprop import CSP, CSPConfig, CSPLayer
from csprop.cells import Cell, Counter, Paper, Rotor, Router, Switch

FEATURES, WIDTH, TOKENS, INPUTS = 6, 4, 5, 2
KINDS: dict[str, dict[str, Any]] = {
    "resonator": {"kind": "resonator"},
    "rotor": {"kind": "rotor"},
    "router": {"kind": "router", "maps": 3},
    "counter": {"kind": "counter"},
    "switch": {"kind": "switch"},
    "paper": {"kind": "paper"},
    "rotor of order 3": {"kind": "rotor", "order": 3},
}
"""Options of `CSPLayer` for each kind."""
MODELS: dict[str, list[Cell]] = {
    "paper": [Paper()] * 3,
    "paper, adding": [Paper(rotate="none", decay="unit", gate="per_channel", h0="learned")] * 2,
    "paper, SiLU in every step": [Paper(activation="step", h0="learned")] * 2,
    "paper, coupled": [Paper(coupling_rank=2, coupling="per_layer", norm="layer", rotate="state")] * 3,
    "rotor": [Rotor()],
    "rotors that recall": [Rotor(recall=True)] * 2,
    "rotor of order 4": [Rotor(order=4)] * 2,
    "router": [Router(places=2), Router(maps=3)],
    "counter": [Counter(), Switch(), Counter()],
    "mixed": [Rotor(), Router(), Paper()],
}
"""The cells of models."""


def layer(name: str, seed: int = 3, **more: Any) -> CSPLayer:
    """Return a layer of a kind, not in training."""
    options = {"depth": 2, "generator": Generator().manual_seed(seed)} | KINDS[name] | more
    return CSPLayer(FEATURES, WIDTH, **options).eval()


def model(name: str, seed: int = 3, **more: Any) -> CSP:
    """Return a model, not in training."""
    sizes: dict[str, Any] = {"vocab_size": TOKENS, "num_classes": 3, "width": WIDTH}
    sizes |= {"decoder": "linear"} | more
    config = CSPConfig(**sizes, cells=MODELS[name])
    return CSP(config, Generator().manual_seed(seed)).eval()


NETS: dict[str, Callable[[int], CSP | CSPLayer]] = {
    **{f"model: {name}": lambda seed=3, name=name: model(name, seed) for name in MODELS},
    **{f"layer: {name}": lambda seed=3, name=name: layer(name, seed) for name in KINDS},
    **{
        f"layer of tokens: {name}": lambda seed=3, name=name: layer(name, seed, vocab_size=TOKENS)
        for name in KINDS
    },
}
"""Everything recurrent, made from a seed."""


def features(*sizes: int, seed: int = 1) -> Tensor:
    return torch.randn(*sizes, FEATURES, generator=Generator().manual_seed(seed))


def tokens(*sizes: int, seed: int = 1) -> Tensor:
    return torch.randint(TOKENS, sizes, generator=Generator().manual_seed(seed))


def draw_inputs(net: nn.Module, *sizes: int, seed: int = 1) -> Tensor:
    """Draw tokens or features, with the type of the network's parameters."""
    if isinstance(net, CSP) or net.vocab_size:
        return tokens(*sizes, seed=seed)
    return features(*sizes, seed=seed).to(next(net.parameters()))


def run(
    net: CSP | CSPLayer, x: Tensor, state: Tensor | None = None, reset: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the output and the last state."""
    if isinstance(net, CSP):
        return net(x, state, reset=reset, return_state=True)
    return net(x, state, reset)


def step(net: CSP | CSPLayer, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Return the output and the state after one step."""
    if isinstance(net, CSP):
        state, y = net.step(state, x)
        return y, state
    return net.step(x, state)


def gradients(net: Callable[[Tensor], Sequence[Tensor]], x: Tensor, wanted: Any) -> list[Tensor]:
    """Return a loss over all outputs, and its gradients; parameters that have none are left out."""
    loss = torch.stack([each.square().mean() for each in net(x)]).sum()
    found = torch.autograd.grad(loss, list(wanted), allow_unused=True)
    return [loss.detach(), *(each for each in found if each is not None)]


class Net(nn.Module):
    """A layer between two of torch's."""

    def __init__(self, inside: CSPLayer) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.before, self.inside = nn.Linear(INPUTS, FEATURES), inside
        self.after = nn.Linear(FEATURES, 3)

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        y, last = self.inside(self.before(x), state)
        return self.after(y), last


class Abreast(nn.Module):
    """A layer of every kind, all with the same input."""

    def __init__(self) -> None:
        super().__init__()
        self.every = nn.ModuleDict({name: Net(layer(name, depth=1)) for name in KINDS})

    def forward(self, x: Tensor) -> list[Tensor]:
        return [each for net in self.every.values() for each in net(x)]


def check_compiled(net: nn.Module, batches: Sequence[Tensor], backend: str) -> None:
    """Run batches of several sizes and lengths through one program, forward and back."""
    from torch._dynamo.testing import CompileCounterWithBackend

    torch._dynamo.reset()
    programs, made = CompileCounterWithBackend(backend), []
    together = torch.compile(net, backend=programs, fullgraph=True, dynamic=True)
    for x in batches:
        x = x.requires_grad_()
        wanted = [x, *net.parameters()]
        torch.testing.assert_close(gradients(together, x, wanted), gradients(net, x, wanted))
        made.append(programs.frame_count)
    assert made[0] == made[-1], made


def export(net: nn.Module, x: Tensor, folder: Path) -> None:
    """Write a program for any batch and length, and the outputs of the network."""
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("time")}
    torch.export.save(
        torch.export.export(net, (x[:3, :11].contiguous(),), dynamic_shapes=(sizes,)),
        folder / "net.pt2",
    )
    torch.save([x, [each.detach() for each in net(x)]], folder / "net.pt")


if __name__ == "__main__":
    warnings.simplefilter("error")
    # No tensor of a layer has a size of the first batch: torch would take them for one size.
    batches = [
        torch.randn(*sizes, INPUTS, generator=Generator().manual_seed(2)).double()
        for sizes in ((5, 11), (2, 7), (7, 30))
    ]
    check_compiled(Abreast().double(), batches, "eager")
    check_compiled(Net(layer("resonator", depth=1)).double(), batches, "aot_eager")
    export(Abreast().double(), batches[2].detach(), Path(sys.argv[1]))
