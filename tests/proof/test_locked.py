"""A locked model: tables that say what the network, snapped at every step, says."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import csprop
from csprop.errors import InputError
from csprop.ops import native
from csprop.proof.certify import certify
from csprop.proof.locked import Locked, LockedModel
from csprop.proof.locked_counter import LockedCounter
from csprop.proof.store import save
from tests.helpers import machines
from tests.helpers.counting import brackets
from tests.helpers.zoo import unpack

TOKENS = torch.tensor([[0, 1]])
MODULUS, MOVES, LABELS = 5, ((False, 2), (True, 3), (False, 4)), (0, 1, 2, 3, 0)


@pytest.fixture(scope="module")
def model() -> Locked:
    return machines.locked(machines.compiled(machines.Counter(MODULUS, MOVES, LABELS), noise=0.003))


@pytest.fixture(scope="module", params=["finite", "counting"])
def either(request: pytest.FixtureRequest, model: Locked) -> LockedModel:
    return model if request.param == "finite" else LockedCounter(brackets())


def drawn(rows: int, length: int, seed: int = 0) -> Tensor:
    return torch.randint(len(MOVES), (rows, length), generator=torch.Generator().manual_seed(seed))


def test_the_table_is_the_network_snapped_at_every_step(model: Locked) -> None:
    tokens = drawn(7, 40)
    state, said = model.network.initial_state(7), []
    for column in tokens.unbind(1):
        state, scores = model.network.step(state, column, model.snapping([]))
        said.append(scores)
    scores, last = model(tokens, return_state=True)
    torch.testing.assert_close(scores, torch.stack(said, dim=1))
    assert torch.equal(model.codes[0][model.places[last, 0]], state[:, 0])


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_pieces_are_the_whole(either: LockedModel, backend: str) -> None:
    if backend == "native" and native.WHY_NOT:
        pytest.skip(native.WHY_NOT)
    tokens, parts = drawn(3, 50) % either.symbols, []
    _, state = either(tokens[:, :5], return_state=True)
    with csprop.use_backend("torch"):  # the loop over columns
        whole, end = either(tokens, state, return_state=True)
    with csprop.use_backend(backend):
        for part in tokens.split([1, 0, 2, 30, 17], dim=1):
            scores, state = either(part, state, return_state=True)
            parts.append(scores)
    assert torch.equal(torch.cat(parts, dim=1), whole)
    assert torch.equal(state, end)


def test_a_reset_begins_another_sequence(either: LockedModel) -> None:
    tokens = drawn(2, 12) % either.symbols
    _, state = either(tokens[:, :5], return_state=True)
    reset = torch.zeros(2, 12, dtype=torch.bool)
    reset[0, 5] = reset[1, 0] = reset[1, 9] = True
    scores, end = either(tokens, state, reset=reset, return_state=True)
    first = [either(tokens[:1, :5], state[:1]), either(tokens[:1, 5:])]
    second = [either(tokens[1:, :9]), either(tokens[1:, 9:])]
    for row, parts in enumerate((first, second)):
        assert torch.equal(scores[row], torch.cat(parts, dim=1)[0])
    assert torch.equal(end[:1], either(tokens[:1, 5:], return_state=True)[1])


def test_a_stream_is_the_forward_pass(either: LockedModel) -> None:
    tokens = drawn(1, 30) % either.symbols
    stream, whole = either.stream(), either(tokens)[0]
    for token, scores in zip(tokens[0, :20].tolist(), whole, strict=False):
        assert torch.equal(stream.step(token), scores)
    middle = stream.state
    first = [stream.step(token) for token in tokens[0, 20:].tolist()]
    stream.state = middle
    again = [stream.step(token) for token in tokens[0, 20:].tolist()]
    assert torch.equal(torch.stack(first), whole[20:])
    assert torch.equal(torch.stack(again), whole[20:])
    stream.reset()
    assert torch.equal(stream.step(int(tokens[0, 0])), whole[0])


@pytest.mark.parametrize(
    ("tokens", "options", "sentence"),
    [
        (torch.tensor([[0, 3]]), {}, "token 3 is outside the vocabulary: write 0 to 2"),
        (torch.tensor([[-1, 0]]), {}, "token -1 is outside"),
        (TOKENS.int(), {}, "tokens must be a dense int64 tensor"),
        (torch.tensor([0, 1]), {}, "tokens must be a dense int64 tensor of shape"),
        ("01", {}, "tokens must be a dense int64 .* got"),
        (None, {}, "tokens must be a dense int64 .* got"),
        ([[0, 1]], {}, "tokens must be a dense int64 .* got"),
        (TOKENS.to("meta"), {}, "tokens must be a dense int64 tensor"),
        (TOKENS.to_sparse(), {}, "tokens must be a dense int64 tensor"),
        (TOKENS, {"state": "0"}, "state must be a dense int64 tensor"),
        (TOKENS, {"state": torch.tensor([0, 0])}, "state must be a dense int64 tensor"),
        (TOKENS, {"state": torch.tensor([0.0])}, "state must be .*float32"),
        (TOKENS, {"state": torch.tensor([-1])}, "state must have numbers from 0"),
        (TOKENS, {"state": torch.tensor([99])}, "state must have numbers from 0"),
        (TOKENS, {"reset": TOKENS}, "reset must be a dense bool"),
        (TOKENS, {"reset": torch.tensor([[True]])}, r"reset must be .* of shape \(1, 2\)"),
    ],
)
def test_what_does_not_fit_is_refused(
    model: Locked, tokens: Any, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        model(tokens, **options)


def test_a_stream_refuses_what_does_not_fit(model: Locked) -> None:
    stream = model.stream()
    with pytest.raises(InputError, match="token 3 is outside"):
        stream.step(3)
    for state in (torch.tensor([-1]), torch.tensor([99]), torch.tensor([0, 0])):
        with pytest.raises(InputError, match="state must"):
            stream.state = state


@pytest.mark.parametrize(("length", "resets"), [(10**6, False), (20_000, True)])
def test_a_million_tokens(length: int, resets: bool) -> None:
    """With a mask of resets, a machine goes column by column, which is slower."""
    counter = machines.Counter(7, ((False, 1), (False, 3)), (0, 1, 2, 3, 0, 1, 2))
    model, tokens = machines.locked(machines.compiled(counter, noise=0.001)), drawn(1, length) % 2
    began = time.perf_counter()
    said = model(tokens, reset=torch.zeros_like(tokens) > 0 if resets else None).argmax(dim=2)
    assert time.perf_counter() - began < 20
    counts = torch.where(tokens == 1, 3, 1).cumsum(dim=1) % 7
    assert torch.equal(said, torch.tensor(counter.labels)[counts])


def test_a_run_gives_its_locked_model_back(tmp_path: Path) -> None:
    options: dict[str, Any] = {"epochs": 8, "samples": 1000, "width": 8, "as_trained": True}
    run = csprop.train("flip-flop", out=tmp_path / "run", **options)
    assert csprop.load(tmp_path / "run").locked is None
    certificate = certify(run.model, run.task)
    assert certificate.locked is not None, certificate.statement
    save(certificate, tmp_path / "run")
    again = csprop.load(tmp_path / "run").locked
    assert again is not None
    mine, stored = certificate.locked.state_dict(), again.state_dict()
    assert mine.keys() == stored.keys()
    assert all(torch.equal(value, stored[name]) for name, value in mine.items())
    for name in ("places", "following", "scores"):
        assert torch.equal(getattr(again, name), getattr(certificate.locked, name)), name
    assert not any(parameter.requires_grad for parameter in again.parameters())
    (tmp_path / "run" / "certificate.json").unlink()  # as if cut off before it was written
    assert csprop.load(tmp_path / "run").locked is None


def test_a_proof_is_not_used_if_torch_computes_another_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As another processor might: the verifier computes in float64, torch in float32."""
    run = csprop.load(unpack("parity", tmp_path))
    explore = Locked._explore

    def explore_otherwise(locked: Locked) -> Any:
        machine, *rest = explore(locked)
        return replace(machine, transitions=tuple(row[::-1] for row in machine.transitions)), *rest

    monkeypatch.setattr(Locked, "_explore", explore_otherwise)
    with pytest.raises(InputError, match="torch computes another machine"):
        _ = run.certificate
