"""An argument that is not a tensor of the right kind is refused in one sentence."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from csprop import CSP, Rotor, scan
from csprop.cells import Paper
from csprop.errors import InputError
from tests.helpers.options import config

pytestmark = pytest.mark.usefixtures("unchecked_shapes")  # users have no checks of shapes
NET, MATRICES = (
    CSP(config(cell, width=4), Generator().manual_seed(0)) for cell in (Paper(), Rotor(order=3))
)
TOKENS, RESET = torch.zeros(2, 5, dtype=torch.int64), torch.zeros(2, 5, dtype=torch.bool)
A, Z, H0 = torch.ones(2, 5, 1, 1), torch.ones(2, 5, 2, 4), torch.ones(2, 2, 4)
STATE, PLANES = NET.initial_state(2).detach(), MATRICES.initial_state(2).detach()
BLOCK, TURNING, TRACKER = NET.layers[0], MATRICES.layers[0], NET.stream()
TAKERS: dict[str, tuple[Callable[[Any], object], Tensor]] = {
    "tokens": (lambda value: NET(value), TOKENS),
    "state": (lambda value: NET(TOKENS, value), STATE),
    "reset": (lambda value: NET(TOKENS, reset=value), RESET),
    "state of a stream": (lambda value: setattr(TRACKER, "state", value), TRACKER.state),
    "token of a stream": (lambda value: TRACKER.step(value), torch.tensor(1)),
    "a of scan": (lambda value: scan(value, Z), A),
    "u of scan": (lambda value: scan(A, value), Z),
    "h0 of scan": (lambda value: scan(A, Z, value), H0),
    "reset of scan": (lambda value: scan(A, Z, None, value), RESET),
    "z of a block": (lambda value: BLOCK(value, H0), Z),
    "state of a block": (lambda value: BLOCK(Z, value), H0),
    "reset of a block": (lambda value: BLOCK(Z, H0, value), RESET),
    "coupled of a block": (lambda value: BLOCK(Z, H0, None, value), Z),
    "tokens of order 3": (lambda value: MATRICES(value), TOKENS),
    "state of order 3": (lambda value: MATRICES(TOKENS, value), PLANES),
    "state of a block of order 3": (
        lambda value: TURNING(torch.ones(2, 5, 3, 4), value), PLANES[:, 0],
    ),
}  # fmt: skip
OPTIONAL = ("state", "reset", "h0 of scan", "reset of scan", "reset of a block", "coupled of a block",
            "state of order 3")  # fmt: skip


def spoil(right: Tensor) -> dict[str, Any]:
    """Return values of the wrong kind in place of a tensor."""
    wrong: dict[str, Any] = {
        "string": "0110", "float": 0.5, "object": object(), "generator": (each for each in [1]),
        "list": right.tolist() if right.ndim else [1], "meta": right.to("meta"),
        "array": right.numpy() if right.ndim else np.ones(3), "complex": right.to(torch.complex64),
        "None": None,
    }  # fmt: skip
    if right.ndim:
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.strided)
        wrong |= {"sparse": right.to_sparse(), "shape": right[None], "nested": nested}
    return wrong


@pytest.mark.filterwarnings("ignore")  # of torch, about nested and sparse tensors
@pytest.mark.parametrize("name", TAKERS)
def test_every_wrong_type_is_one_sentence(name: str) -> None:
    take, right = TAKERS[name]
    take(right)
    for kind, value in spoil(right).items():
        if kind == "None" and name in OPTIONAL:
            continue
        with pytest.raises(InputError) as refusal:
            take(value)
        sentence = str(refusal.value)
        assert "must be" in sentence, kind
        assert "; got " in sentence, kind
        assert "\n" not in sentence, kind
