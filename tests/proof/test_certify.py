"""csprop.certify: what it says, what it refuses, and that it leaves the model alone."""

import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import csprop
from csprop import tasks
from csprop.data.examples import UNLABELLED
from csprop.errors import InputError
from csprop.proof.certify import certify_length
from csprop.proof.examples import Labelled
from csprop.proof.models import FromRNN, FromStep
from csprop.training.pruned import follow
from tests.helpers import machines

PARITY = (2, ((False, 0), (False, 1)), (0, 1), 2)
CONSTANT = (2, ((False, 0), (False, 0)), (0, 1), 2)
NOTHING = Labelled(torch.zeros(3, 4, dtype=torch.int64), torch.full((3, 4), UNLABELLED))


def counting_depth(limit: int) -> FromStep:
    """Open brackets, up to a limit; -1 once one was closed that was not."""

    def step(state: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        after = state + torch.where(tokens[:, None] == 0, 1.0, -1.0)
        new = torch.where(state < 0, -1.0, after.clamp(max=limit))
        return new, torch.cat([new.abs(), 0.5 + 0 * new], dim=1)  # 0.5 wins at 0 alone

    return FromStep(torch.zeros(1), step)


def test_the_model_stays_bit_for_bit() -> None:
    run = csprop.train("parity", epochs=1, samples=200, width=4, length=6)
    model = run.model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    asked = [parameter.requires_grad for parameter in model.parameters()]
    csprop.certify(model, run.task, rounds=1)
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert [parameter.requires_grad for parameter in model.parameters()] == asked


def test_a_wrong_model_has_a_shortest_counterexample() -> None:
    model = machines.compiled(machines.Counter(*CONSTANT))
    found = csprop.certify(model, tasks.get("parity"), rounds=0)
    assert (found.verdict, found.proven, found.locked) == ("counterexample", False, None)
    assert found.document["counterexample"] == {
        "sequence": "1", "length": 1, "said": "even", "right": "odd"
    }  # fmt: skip
    assert found.statement == "Nothing is proven: after 1 it says 'even', and 'odd' is right."
    assert found.document["proven"] is False


@pytest.mark.parametrize(("depth", "named"), [(3, 3), (None, 8)])
def test_parenthesis_names_the_depth(depth: int | None, named: int) -> None:
    task, examples = tasks.get("parenthesis"), None
    if depth:  # none of them deeper
        tokens = task.sample(100, 2 * depth, torch.Generator().manual_seed(0))
        tokens = tokens[(1 - 2 * tokens).cumsum(dim=1).amax(dim=1) <= depth]
        examples = Labelled(tokens, task.labels(tokens))
    found = csprop.certify(counting_depth(10), task, examples, depth=depth, rounds=0)
    assert found.verdict == f"proven up to depth {named}", found.statement
    assert f"no prefix goes deeper than {named}," in found.statement
    assert "the task is not regular" in found.statement
    assert found.document["depth"] == named
    assert len(found.document["task_states"]) == named + 3  # 0 to the depth, and two below 0


def test_one_deeper_than_it_can_count_is_not_proven() -> None:
    found = csprop.certify(counting_depth(3), tasks.get("parenthesis"), depth=4, rounds=0)
    assert (found.verdict, found.proven) == ("counterexample", False)
    assert found.document["counterexample"]["sequence"] == "(((()))"


def test_a_size_that_bounds_nothing_is_the_task_s_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    task = tasks.get("parenthesis")
    monkeypatch.setattr(type(task), "size", lambda self, state: 0)
    with pytest.raises(InputError, match=r"parenthesis: more than 65,536 states .* its `size` must"):
        csprop.certify(counting_depth(3), task, depth=4, rounds=0)


def test_a_file_has_no_truth_at_a_length(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("0,even\n1,odd\n0110,even\n")
    model = machines.compiled(machines.Counter(*PARITY))
    with pytest.raises(InputError, match="own: a data file gives the correct class of its rows only"):
        certify_length(model, tasks.from_file(tmp_path / "own.csv"), 4)


def parity_file(path: Path, wrong: set[int]) -> tasks.FileTask:
    """The parity of all strings of length 1 to 5, with some labels turned; the first row is 1."""
    strings = ("".join(each) for n in range(1, 6) for each in itertools.product("01", repeat=n))
    said = ((each, (each.count("1") + (row in wrong)) % 2) for row, each in enumerate(strings, 1))
    path.write_text("".join(f"{each},{('even', 'odd')[odd]}\n" for each, odd in said))
    return tasks.from_file(path)


def test_labels_at_every_step_disagree_as_one_row(tmp_path: Path) -> None:
    rows = [{"sequence": "0110", "label": list("eoee")}] * 20
    rows[6] = {"sequence": "1110", "label": list("eeee")}
    (tmp_path / "own.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in rows))
    task = tasks.from_file(tmp_path / "own.jsonl")
    found = csprop.certify(machines.compiled(machines.Counter(*PARITY)), task)
    assert (found.verdict, found.document["disagreeing"]) == ("agrees with 19 of 20 rows", [7])


@pytest.mark.parametrize(("wrong", "proven"), [(23, False), (22, True)])
def test_what_a_clear_margin_is(tmp_path: Path, wrong: int, proven: bool) -> None:
    """Of 62 rows half are in each class: by Wilson's formula, 40 right answers are the fewest."""
    evenly = {row for pair in range(1, 62, 4) for row in (pair, pair + 1)}
    task = parity_file(tmp_path / "own.csv", set(sorted(evenly)[:wrong]))
    found = csprop.certify(machines.compiled(machines.Counter(*PARITY)), task, rounds=0)
    assert found.proven == proven, found.statement
    assert (found.verdict == "not learned") == (found.locked is None) == (not proven)


def test_what_has_not_been_learned_is_not_trained_further(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("trained further")

    monkeypatch.setattr("csprop.proof.attempts.tune", fail)
    lines: list[str] = []
    model = machines.compiled(machines.Counter(*CONSTANT))
    found = csprop.certify(model, tasks.get("parity"), on_round=lines.append)
    assert found.verdict == "counterexample"
    assert len(lines) == 2
    assert lines[1].endswith("% of its training labels: not learned")
    zeros = torch.zeros(100, 6, dtype=torch.int64)  # on these it is right
    with pytest.raises(AssertionError, match="trained further"):
        csprop.certify(model, tasks.get("parity"), Labelled(zeros, zeros))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"depth": 3}, "parity: has finitely many states: leave out the depth"),
        ({"examples": NOTHING}, "the examples have no labels"),
    ],
)
def test_what_does_not_fit_the_task_is_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        csprop.certify(machines.compiled(machines.Counter(*PARITY)), "parity", **options)


def test_a_run_uses_the_training_data_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    run = csprop.train("parity", samples=500, epochs=5)
    again = csprop.certify(run.model, run.task, progress=False)
    monkeypatch.setattr("csprop.proof.certify.training_data", None)  # which would draw it again
    assert run.certify() == again


# Models that csprop did not make.


def test_a_function_of_one_step_is_certified() -> None:
    def step(state: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """One number, whose sign a 1 turns round; it leans a little, as learned ones do."""
        new = torch.tanh(3 * (torch.where(tokens[:, None] == 1, -state, state) * 1.01 + 0.02))
        return new, torch.cat([new, -new], dim=1)

    found = csprop.certify(FromStep(torch.ones(1), step), "parity")
    assert found.verdict == "proven for all lengths"
    assert found.automaton is not None
    assert len(found.automaton) == 2


KINDS: Sequence[type[nn.RNNBase]] = (nn.RNN, nn.GRU, nn.LSTM)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_of_an_rnn_is_torch_s_own(kind: Callable[..., nn.RNNBase], batch_first: bool) -> None:
    rnn = kind(3, 5, num_layers=2, batch_first=batch_first)
    model = FromRNN(nn.Embedding(4, 3), rnn, nn.Linear(5, 2)).requires_grad_(False)
    tokens = torch.randint(4, (6, 7), generator=torch.Generator().manual_seed(1))
    everything = torch.ones(2, 5, dtype=torch.bool)
    torch.testing.assert_close(follow(model, everything, tokens), model(tokens))


@pytest.mark.parametrize("kind", [pytest.param(each, marks=pytest.mark.slow) for each in KINDS])
def test_a_trained_rnn_is_certified(kind: Callable[..., nn.RNNBase]) -> None:
    task = tasks.get("flip-flop")
    torch.manual_seed(3)
    model = FromRNN(nn.Embedding(3, 4), kind(4, 6, batch_first=True), nn.Linear(6, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    draws = torch.Generator().manual_seed(0)
    for _ in range(400):
        tokens = task.sample(64, 16, draws)
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), task.labels(tokens).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    found = csprop.certify(model, task)
    assert found.proven, found.statement
    assert found.automaton is not None
    assert len(found.automaton) == 2
    assert any(parameter.requires_grad for parameter in model.parameters()), "the model was changed"


def test_an_rnn_without_a_single_step_is_refused() -> None:
    for options in ({"bidirectional": True}, {"proj_size": 2}):
        with pytest.raises(InputError, match="no single step"):
            FromRNN(nn.Embedding(2, 3), nn.LSTM(3, 4, **options), nn.Linear(4, 2))
