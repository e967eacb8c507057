"""Training steps that the kernel does not take: wrong rows, and models that it leaves to torch."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from csprop import CSP, use_backend
from csprop.errors import InputError
from csprop.nn.kernel import row_scores, why_not
from csprop.ops import native
from csprop.ops.native.step import take
from csprop.training.presets import Recipe
from tests.helpers.descent import VOCABULARY, drawn, natively, small

pytestmark = pytest.mark.skipif(bool(native.WHY_NOT), reason=native.WHY_NOT)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("value", [VOCABULARY + 1, 99, 10**12])
def test_a_token_or_a_label_out_of_range_is_refused(place: int, value: int) -> None:
    rows = drawn(3, 4)
    rows[0][place][1, 2] = value
    with pytest.raises(InputError, match="outside of its range"):
        take([(natively(small(), Recipe()), rows, 1.0)])


def test_a_model_that_the_kernel_does_not_train_is_named() -> None:
    def says(reason: str, change: Any) -> None:
        net = small()
        change(net)
        assert reason in why_not(net), reason

    assert why_not(nn.Linear(2, 2)) == "the model is not a CSP"
    assert why_not(type("Own", (CSP,), {})(small().config)) == "the model is not a CSP"
    says("hook", lambda net: net.embedding.register_hook(lambda gradient: gradient))
    says("hook", lambda net: net.embedding.register_post_accumulate_grad_hook(lambda _: None))
    says("hook", lambda net: net.blocks[0].register_forward_hook(lambda *_: None))
    says("replaced", lambda net: setattr(net, "decoder", nn.Sequential(net.decoder)))
    says("one type", lambda net: net.to(torch.bfloat16))
    says("one type", lambda net: net.decoder.float())
    skip = nn.Parameter(torch.tensor([0.3], dtype=torch.float64))
    says("not those that it was made with", lambda net: setattr(net.blocks[1], "skip", skip))
    says("not trained", lambda net: net.embedding.requires_grad_(False))
    with use_backend("torch"):
        says("the backend is torch", lambda net: None)
    with torch.autocast("cpu"):
        says("autocast is on", lambda net: None)
    handle = nn.modules.module.register_module_forward_hook(lambda *_: None)
    says("hook", lambda net: None)
    handle.remove()
    assert not why_not(small())


@pytest.mark.parametrize(
    ("tokens", "labels"),
    [
        (torch.zeros(4, 7, dtype=torch.int64), torch.zeros(2, 7, dtype=torch.int64)),
        (torch.zeros(2, 7, dtype=torch.int32), torch.zeros(2, 7, dtype=torch.int64)),
        (torch.zeros(2, 7, dtype=torch.int64), torch.zeros(2, 7)),
        (torch.zeros(7, dtype=torch.int64), torch.zeros(7, dtype=torch.int64)),
    ],
)
def test_rows_of_other_types_or_shapes_are_refused(tokens: Tensor, labels: Tensor) -> None:
    net = small()
    with pytest.raises(InputError, match="int64 tensors of one shape"):
        take([(natively(net, Recipe()), [(tokens, labels)], 1.0)])
    with pytest.raises(InputError, match="int64 tensors of one shape"):
        row_scores(net, tokens, labels)


def test_a_batch_without_rows_changes_nothing() -> None:
    net = small()
    before = copy.deepcopy(net.state_dict())
    empty = torch.zeros(0, 4, dtype=torch.int64)
    (found,) = take([(natively(net, Recipe()), [(empty, empty)], 1.0)])
    assert not found.taken
    assert all(torch.equal(before[name], each) for name, each in net.state_dict().items())
