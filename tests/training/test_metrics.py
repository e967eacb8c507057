import weakref
from dataclasses import replace
from operator import ne
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator, Tensor

from csprop import CSP, CSPConfig, Paper, use_backend
from csprop.data.examples import Examples
from csprop.errors import InputError
from csprop.runs.machines import from_machine
from csprop.tasks import get
from csprop.tasks.base import Task, every_sequence
from csprop.training import metrics
from csprop.training.config import configure
from csprop.training.metrics import at_length, exhaustive, score
from csprop.training.scores import Evidence, Sampling, Score, check_exhaustive, interval
from csprop.training.seeding import generator
from csprop_lab.layers.basic import Kind, Peer, PeerConfig


class Oracle:
    """A model that answers as a function of the prefix says; its state is the prefix.

    It remembers the number of tokens of each call, and which of its scores are alive.
    """

    def __init__(self, answer: Any, classes: int = 2) -> None:
        self.answer, self.classes = answer, classes
        self.seen: list[int] = []
        self.alive: set[int] = set()

    def initial_state(self, batch: int) -> Tensor:
        return torch.zeros(batch, 0, dtype=torch.int64)

    def __call__(self, tokens: Tensor, state: Tensor | None = None, return_state: bool = False) -> Any:
        before = self.initial_state(len(tokens)) if state is None else state
        whole = torch.cat([before, tokens], dim=1)
        start = before.shape[1]
        answers = [
            [self.answer(row[: t + 1]) for t in range(start, whole.shape[1])] for row in whole.tolist()
        ]
        logits = torch.nn.functional.one_hot(torch.tensor(answers).long(), self.classes).double()
        self.alive.add(len(self.seen))
        weakref.finalize(logits.untyped_storage(), self.alive.discard, len(self.seen))
        self.seen.append(tokens.numel())
        assert len(self.alive) <= 3
        return (logits, whole) if return_state else logits


@pytest.mark.parametrize("name", ["parity", "mod3-residue", "parenthesis"])
def test_a_single_wrong_input_is_found(name: str) -> None:
    task, poison = get(name), [0, 1] * 4
    for wrong in (0, 1):
        truth = lambda row, wrong=wrong: (task.truth(row) + wrong * (row == poison)) % len(task.classes)  # noqa: E731
        result = exhaustive(Oracle(truth, len(task.classes)), task, 8)  # pyright: ignore
        assert (result.wrong, result.count) == (wrong, 256)
        assert (result.accuracy == result.f1 == 1.0) == (not wrong)


@pytest.mark.parametrize(
    ("name", "kind", "length"),
    [
        ("parity", "paper", 9), ("mod3-residue", "rotor", 1), ("mod3-residue", "rotor", 8),
        ("parenthesis", "counter", 8), ("group-S3", "router", 4), ("majority", "counter", 7),
    ],
)  # fmt: skip
def test_every_input_scores_the_same_by_the_walk_and_by_batches(
    name: str, kind: str, length: int
) -> None:
    task = get(name)
    model = CSP(configure(task, kind).model, Generator().manual_seed(1)).double().eval()
    walked = exhaustive(model, task, length)
    with use_backend("torch"):
        batched = exhaustive(model, task, length)
    assert walked.loss == pytest.approx(batched.loss, rel=1e-12)
    assert replace(walked, loss=0) == replace(batched, loss=0)
    assert walked.count == len(task.vocab) ** length


@pytest.mark.parametrize("window", [1, 3, 1 << 15])
def test_sampling_carries_the_state_over_windows(monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    monkeypatch.setattr(metrics, "WINDOW", window)
    task, five = get("parity"), Sampling(tokens=0, fewest=5, most=5)
    result = at_length(Oracle(task.truth), task, 13, 0, five)
    assert (result.accuracy, result.count) == (1.0, 5)


def untrained(name: str, preset: str) -> CSP:
    return CSP(configure(get(name), preset).model, Generator().manual_seed(1)).eval()


def peer(kind: Kind) -> Peer:
    config = PeerConfig(kind=kind, vocab_size=2, num_classes=2, width=8, depth=1)
    return Peer(config, Generator().manual_seed(1)).eval()


def locked(name: str) -> Any:
    """The locked model of a task's machine."""
    task = get(name)
    model = from_machine(task, task.counting or task.machine).locked
    assert model is not None
    return model


WRONG_HERE_AND_THERE = {
    "paper": ("parity", lambda: untrained("parity", "paper")),
    "rotor": ("mod3-residue", lambda: untrained("mod3-residue", "rotor")),
    "router": ("group-S3", lambda: untrained("group-S3", "router")),
    "counter": ("parenthesis-prefix", lambda: untrained("parenthesis-prefix", "counter")),
    "LSTM": ("parity", lambda: peer("LSTM")),
    "Transformer": ("parity", lambda: peer("Transformer")),
    "locked": ("even-pairs", lambda: locked("parity")),
    "locked counter": ("parenthesis-prefix", lambda: locked("majority")),
}
"""Models, and tasks that they answer wrongly at some positions."""


def f1_by_definition(pairs: list[tuple[int, int]], classes: int) -> float:
    """Return F1 of pairs of the right class and the answer: of class 1 of two, else the mean."""
    f1 = {}
    for c in range(classes):
        hits = sum(t == p == c for t, p in pairs)
        misses, alarms = (sum(t == c != p for t, p in pairs), sum(p == c != t for t, p in pairs))
        if hits + misses + alarms:
            f1[c] = 2 * hits / (2 * hits + misses + alarms)
    return f1.get(1, 1.0) if classes == 2 else sum(f1.values()) / len(f1)


def check_everywhere(got: Score, model: Any, task: Task, rows: list[list[int]]) -> None:
    """Check that a score is that of a model which reads every prefix of every row on its own."""
    prefixes = [row[:end] for row in rows for end in range(1, len(row) + 1)]
    with torch.no_grad():
        scores = torch.stack([model(torch.tensor([prefix]))[0, -1].double() for prefix in prefixes])
    answers, truth = scores.argmax(dim=1).tolist(), [task.truth(prefix) for prefix in prefixes]
    wrong = sum(map(ne, answers, truth))
    assert 0 < wrong < len(prefixes)
    assert (got.count, got.wrong) == (len(prefixes), wrong)
    assert got.accuracy == pytest.approx(1 - wrong / len(prefixes))
    pairs = list(zip(truth, answers, strict=True))
    assert got.f1 == pytest.approx(f1_by_definition(pairs, len(task.classes)))
    loss = torch.nn.functional.cross_entropy(scores, torch.tensor(truth))
    assert got.loss == pytest.approx(float(loss), rel=1e-5)


@pytest.mark.parametrize("window", [5, 1 << 15])
@pytest.mark.parametrize("kind", WRONG_HERE_AND_THERE)
def test_the_score_over_positions_is_that_of_every_prefix_on_its_own(
    kind: str, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, make = WRONG_HERE_AND_THERE[kind]
    task, model, sampling = get(name), make(), Sampling(tokens=0, fewest=6, most=6)
    monkeypatch.setattr(metrics, "WINDOW", window)
    drawn = task.sample(6, 13, generator(3, "eval", 13)).tolist()
    check_everywhere(at_length(model, task, 13, 3, sampling, positions=True), model, task, drawn)
    every = every_sequence(len(task.vocab), 3).tolist()
    check_everywhere(exhaustive(model, task, 3, positions=True), model, task, every)


def test_no_position_of_a_long_row_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model sees a window at a time, and its scores are counted before it sees the next."""
    monkeypatch.setattr(metrics, "WINDOW", 16)
    task, sampling = get("parity"), Sampling(tokens=0, fewest=3, most=3)
    model = Oracle(task.truth)
    result = at_length(model, task, 100, 0, sampling, positions=True)
    assert (result.wrong, result.count) == (0, 300)
    assert model.seen == [16, 16, 16, 16, 16, 16, 4] * 3


@given(
    st.integers(2, 4).flatmap(
        lambda c: st.tuples(
            st.just(c), st.lists(st.tuples(st.integers(0, c - 1), st.integers(0, c - 1)), min_size=1)
        )
    )
)
def test_accuracy_and_f1_by_their_definitions(drawn: tuple[int, list[tuple[int, int]]]) -> None:
    classes, pairs = drawn
    tokens = torch.arange(len(pairs))[:, None]
    labels = torch.tensor([[true] for true, _ in pairs])
    oracle = Oracle(lambda row: pairs[row[0]][1], classes)
    got = score(oracle, Examples.from_matrices(tokens, labels, torch.ones_like(labels) > 0))  # pyright: ignore
    assert got.accuracy == pytest.approx(sum(t == p for t, p in pairs) / len(pairs))
    assert got.f1 == pytest.approx(f1_by_definition(pairs, classes))


def test_rows_of_any_lengths_get_their_own_last_scores() -> None:
    rows = [[1], [0, 1, 1], [1] * 40_000, [0]]
    net = CSP(CSPConfig(vocab_size=2, num_classes=2, width=2, depth=1, cell=Paper(decay="exp")))
    for row, scores in zip(rows, metrics.last_logits(net, rows), strict=True):
        torch.testing.assert_close(scores, net(torch.tensor([row]))[0, -1].detach())


def test_a_long_row_is_scored_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model sees at most a window at a time, and every answer of every row is the right one."""
    drawn = Generator().manual_seed(0)
    rows = [torch.randint(2, (length,), generator=drawn) for length in (1, 3, 40, 2, 100, 5)]
    lengths = torch.tensor([len(row) for row in rows])
    truth = torch.cat([row.cumsum(0) % 2 for row in rows])
    parts = (torch.cat(rows), truth, truth >= 0, lengths.cumsum(0) - lengths, lengths)
    monkeypatch.setattr(metrics, "WINDOW", 16)
    model = Oracle(lambda row: sum(row) % 2)
    result = score(model, Examples(*(each.numpy() for each in parts)))  # pyright: ignore
    assert (result.wrong, result.count) == (0, 151)
    assert max(model.seen) <= 16


def test_too_many_inputs_and_odd_lengths_are_refused() -> None:
    check_exhaustive(get("parity"), 20)
    with pytest.raises(InputError, match=r"length 21 has 2\^21 inputs"):
        check_exhaustive(get("parity"), 21)
    with pytest.raises(InputError, match="no sequences of length 5"):
        check_exhaustive(get("parenthesis"), 5)
    assert len(every_sequence(2, 16)) == 65_536


@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_holds_the_accuracies_that_a_score_test_does_not_reject(
    drawn: tuple[int, int],
) -> None:
    """Wilson's bounds are where |share - p| is 1.96 standard deviations of p itself."""
    right, count = drawn
    low, high = interval(right, count)
    assert 0 <= low <= right / count + 1e-12
    assert right / count - 1e-12 <= high <= 1
    for bound in (low, high):
        if 1e-9 < bound < 1 - 1e-9:
            deviations = abs(right / count - bound) / (bound * (1 - bound) / count) ** 0.5
            assert deviations == pytest.approx(1.959964, rel=1e-4)
    assert interval(right, count, 0.001)[0] <= low + 1e-12


def test_the_evidence_of_a_machine_counts_the_held_out_labels() -> None:
    evidence = Evidence(
        rows=100, agreed=90, held_out=20, held_out_right=15, held_out_states=3, same=True, majority=0.5
    )
    assert evidence.accuracy == 0.75
    assert evidence.interval == interval(15, 20)
    assert evidence.interval[1] < 1
