"""The models and scans that csprop is compared with."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from csprop.nn.config import CSPConfig
from csprop.nn.model import CSP
from csprop.nn.peers import Kind, Peer, PeerConfig
from csprop.ops.backends import use_backend
from csprop.ops.scan import scan
from csprop.tasks import get
from csprop.training.presets import preset as preset_of

WIDTH, DEPTH, VOCAB, CLASSES = 64, 3, 2, 2


def peer(kind: Kind) -> Peer:
    config = PeerConfig(kind=kind, vocab_size=VOCAB, num_classes=CLASSES, width=WIDTH, depth=DEPTH)
    return Peer(config, Generator().manual_seed(0))


def parameters(name: str) -> int:
    return sum(p.numel() for p in MODELS[name]().parameters())


def csp(preset: str = "paper", **changes: Any) -> CSP:
    options = {**vars(preset_of(preset, get("parity")).model), **changes}
    return CSP(CSPConfig(vocab_size=VOCAB, num_classes=CLASSES, **options))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "csprop": csp,
    "torch backend": csp,
    "reference loop": csp,
    "nn.LSTM": lambda: peer("LSTM"),
    "nn.GRU": lambda: peer("GRU"),
    "Transformer": lambda: peer("Transformer"),
}
BACKENDS = {"torch backend": "torch", "reference loop": "reference"}


def training_step(name: str, batch: int, steps: int) -> Callable[[], None]:
    """Forward, backward and Adam on random tokens with a label for the whole."""
    generator = Generator().manual_seed(0)
    model = MODELS[name]()
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    tokens = torch.randint(VOCAB, (batch, steps), generator=generator)
    labels = torch.randint(CLASSES, (batch,), generator=generator)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(tokens)[:, -1], labels).backward()
        optimizer.step()

    return with_backend(BACKENDS.get(name), step)


def with_backend(backend: str | None, work: Callable[[], Any]) -> Callable[[], None]:
    if backend is None:
        return work

    def within() -> None:
        with use_backend(backend):
            work()

    return within


def scans(batch: int, steps: int, width: int) -> dict[str, Callable[[], None]]:
    """A complex scan of given a and u, forward and backward, by each way there is."""
    generator = Generator().manual_seed(0)
    angle, *u = torch.randn(3, batch, steps, width, generator=generator)
    a = [0.99 * angle.cos(), 0.99 * angle.sin()]
    planes = [torch.stack(pair, dim=2).requires_grad_() for pair in (a, u)]
    parts = [part.clone().requires_grad_() for part in (*a, *u)]
    numbers = [torch.complex(*pair)[..., None].requires_grad_() for pair in (a, u)]  # (B, T, D, 1)

    def ours() -> None:
        h, _ = scan(*planes)
        torch.autograd.grad(h, planes, torch.ones_like(h))

    def associative() -> None:
        states = _associative(*parts)
        torch.autograd.grad(states, parts, [torch.ones_like(state) for state in states])

    ways = {
        "csprop": ours,
        "torch backend": with_backend("torch", ours),
        "torch associative_scan, eager": associative,
    }
    try:
        from mambapy.pscan import pscan  # pyright: ignore[reportMissingImports]
    except ImportError:
        return ways

    def mambapy() -> (
        None
    ):  # its backward is for real numbers and lacks the conjugate; the work is the same
        h = pscan(*numbers)
        torch.autograd.grad(h, numbers, torch.full_like(h, 1 + 1j))

    return ways | {"mambapy pscan": mambapy}


def _associative(a_re: Tensor, a_im: Tensor, u_re: Tensor, u_im: Tensor) -> list[Tensor]:
    from torch._higher_order_ops.associative_scan import associative_scan

    def combine(first: Any, second: Any) -> Any:
        (a, b, c, d), (e, f, g, h) = first, second
        return a * e - b * f, a * f + b * e, e * c - f * d + g, e * d + f * c + h

    states = associative_scan(combine, (a_re, a_im, u_re, u_im), dim=1, combine_mode="generic")
    return list(states[2:])
