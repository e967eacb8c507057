"""A router's recurrence: all ways to compute it agree with a walk in plain Python."""

from typing import Any

import pytest
import torch
from torch import Generator, Tensor

from csprop import use_backend
from csprop.ops import native, route

BACKENDS = ["reference", "torch", *([] if native.WHY_NOT else ["native"])]

COUNT, GROUPS, PLACES = 3, 2, 4
WIDTH = GROUPS * PLACES
Arguments = dict[str, Any]


def arguments(seed: int, steps: int, batch: int = 3, resets: bool = False) -> Arguments:
    """Everything but the maps, in float64: choices, and a state in every place."""
    draws = Generator().manual_seed(seed)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draws, dtype=torch.float64)

    return {
        "choice": torch.randint(COUNT, (batch, steps), generator=draws),
        "h0": numbers(batch, 2, WIDTH),
        "reset": torch.rand(batch, steps, generator=draws) < 0.2 if resets else None,
        "start": numbers(2, WIDTH),
    }


def drawn_targets(seed: int) -> Tensor:
    draws = Generator().manual_seed(seed)
    within = torch.randint(PLACES, (COUNT, GROUPS, PLACES), generator=draws)
    return (within + torch.arange(GROUPS)[:, None] * PLACES).flatten(1)


def walked(targets: Tensor, given: Arguments) -> Tensor:
    """Content by content, in complex numbers."""
    batch, steps = given["choice"].shape
    states = torch.zeros(batch, steps, 2, WIDTH, dtype=torch.float64)
    for b in range(batch):
        h = [complex(re, im) for re, im in given["h0"][b].T.tolist()]
        for t in range(steps):
            if given["reset"] is not None and given["reset"][b, t]:
                h = [complex(re, im) for re, im in given["start"].T.tolist()]
            moved = [0j] * WIDTH
            for d, content in enumerate(h):
                moved[int(targets[given["choice"][b, t], d])] += content
            h = moved
            states[b, t] = torch.tensor([[c.real for c in h], [c.imag for c in h]])
    return states


def as_maps(targets: Tensor) -> Tensor:
    """The same as matrices with a single 1 in each column."""
    maps = torch.zeros(COUNT, GROUPS, PLACES, PLACES, dtype=torch.float64)
    for k, row in enumerate(targets.tolist()):
        for source, target in enumerate(row):
            maps[k, source // PLACES, target % PLACES, source % PLACES] = 1
    return maps


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("steps", [0, 1, 2, 63])
@pytest.mark.parametrize("resets", [False, True])
def test_all_ways_agree_with_a_walk(steps: int, resets: bool, backend: str) -> None:
    targets, given = drawn_targets(steps), arguments(steps, steps, resets=resets)
    want = walked(targets, given)
    with use_backend(backend):
        torch.testing.assert_close(route.hard(targets, **given), want)
        torch.testing.assert_close(route.soft(as_maps(targets), **given), want)


def drawn_maps(seed: int) -> Tensor:
    draws = Generator().manual_seed(seed)
    logits = torch.randn(COUNT, GROUPS, PLACES, PLACES, generator=draws, dtype=torch.float64)
    return torch.softmax(logits, dim=2)


def with_gradients(backend: str, maps: Tensor, given: Arguments) -> list[Tensor]:
    """States, and the gradients of everything that has one."""
    inputs = {"maps": maps} | given
    leaves = {
        name: value.clone().requires_grad_()
        for name, value in inputs.items()
        if value is not None and value.is_floating_point()
    }
    with use_backend(backend):
        h = route.soft(**inputs | leaves)
    scale = torch.randn(h.shape, generator=Generator().manual_seed(1), dtype=torch.float64)
    (h * scale).sum().backward()
    zero = torch.zeros(())
    return [h.detach(), *(zero if each.grad is None else each.grad for each in leaves.values())]


@pytest.mark.parametrize("backend", BACKENDS[1:])
@pytest.mark.parametrize("steps", [1, 2, 63])
@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize("mixed", [False, True])
def test_soft_gradients_are_those_of_the_reference(
    backend: str, steps: int, resets: bool, mixed: bool
) -> None:
    given = arguments(5, steps, resets=resets)
    if mixed:
        draws = Generator().manual_seed(5)
        scores = torch.randn(*given["choice"].shape, COUNT, generator=draws, dtype=torch.float64)
        given["weights"] = torch.softmax(scores, dim=2)
    want = with_gradients("reference", drawn_maps(5), given)
    torch.testing.assert_close(with_gradients(backend, drawn_maps(5), given), want)


@pytest.mark.parametrize("backend", BACKENDS)
def test_models_side_by_side_are_those_one_by_one(backend: str) -> None:
    """As seeds are trained together, with vmap."""
    maps, given = torch.stack([drawn_maps(1), drawn_maps(2)]), [arguments(seed, 9) for seed in (1, 2)]

    def states(maps: Tensor, choice: Tensor, h0: Tensor) -> Tensor:
        return route.soft(maps, choice, h0)

    choice, h0 = (torch.stack([each[name] for each in given]) for name in ("choice", "h0"))
    with use_backend(backend):
        together = torch.func.vmap(states)(maps, choice, h0)
        alone = torch.stack([states(*each) for each in zip(maps, choice, h0, strict=True)])
    torch.testing.assert_close(together, alone)


def test_hard_gradients_reach_the_states() -> None:
    targets, given = drawn_targets(8), arguments(8, 5, resets=True)

    def states(h0: Tensor, start: Tensor) -> Tensor:
        return route.hard(targets, given["choice"], h0, given["reset"], start)

    leaves = [given[name].requires_grad_() for name in ("h0", "start")]
    assert torch.autograd.gradcheck(states, leaves)
