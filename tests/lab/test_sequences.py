"""Sequences that layers of features are compared on, their scores, and the rows of their table."""

import json
import math
import sys
from dataclasses import replace
from typing import Any, get_args

import pytest
import torch
from sklearn.datasets import load_digits

from csprop import CSPLayer
from csprop.errors import InputError
from csprop.training.seeding import generator
from csprop_lab.signals import sequences as data
from csprop_lab.signals.networks import Network, NetworkKind
from csprop_lab.signals.prose import TOPICS, chances, entropy, prose, vocabulary
from csprop_lab.signals.sequences import Learner, Rows, Text, sequences, size_of
from csprop_lab.study.job import LayerJob
from csprop_lab.study.layers import RATES, chosen, job
from csprop_lab.study.measure import measure

KINDS: tuple[NetworkKind, ...] = get_args(NetworkKind)
NAMES = get_args(data.DataName)


def network(name: Any, kind: NetworkKind, features: int = 8, width: int = 6) -> data.Network:
    return sequences(name).network(kind, features, width, generator(0, "weights"))


@pytest.mark.parametrize("name", NAMES)
def test_all_networks_for_a_data_set_have_about_one_size(name: Any) -> None:
    """Within a fiftieth; those of the study have to be within a twentieth."""
    sizes = [
        size_of(network(name, kind, features, data.CHANNELS.get(kind, 0)))
        for kind, features in data.FEATURES[name].items()
    ]
    assert len(sizes) == 5
    assert max(sizes) < 1.02 * min(sizes)


def test_digits_are_those_of_scikit_learn_in_three_parts() -> None:
    """No picture is in two parts, none is left out, and both ways to read them have the same parts."""
    levels, numbers = data.digits(as_levels=True), data.digits(as_levels=False)
    parts = [(each.training, each.validation, each.test) for each in (levels, numbers)]
    assert [len(part.targets) for part in parts[0]] == [1079, 359, 359]
    pictures: Any
    pictures, labels = load_digits(return_X_y=True)
    pixels, digits = (torch.cat(each) for each in zip(*parts[0], strict=True))
    expected = torch.tensor(pictures), torch.tensor(labels)
    whole, rows = (torch.column_stack(each).tolist() for each in (expected, (pixels, digits)))
    assert sorted(rows) == sorted(whole)
    assert (pixels.min(), pixels.max()) == (0, levels.vocab_size - 1)
    for one, other in zip(*parts, strict=True):
        assert torch.equal(one.inputs / 16, other.inputs[:, :, 0])
        assert torch.equal(one.targets, other.targets)


def test_text_is_cut_into_three_pieces_that_do_not_overlap() -> None:
    characters = prose(200_000)
    text, known = data.text(), sorted(set(characters))
    tenth = len(characters) // 10

    def spelt(tokens: torch.Tensor) -> str:
        return "".join(known[token] for token in tokens.flatten().tolist())

    assert spelt(text.training) == characters[: -2 * tenth]
    for held_out, piece in (
        (text.validation, characters[-2 * tenth : -tenth]),
        (text.test, characters[-tenth:]),
    ):
        assert held_out.inputs.shape[1] == 256
        assert len(piece) - 256 <= held_out.inputs.numel() < len(piece)
        assert piece.startswith(spelt(held_out.inputs))
        assert piece[1:].startswith(spelt(held_out.targets))


def test_sentences_are_always_the_same() -> None:
    assert prose(60) == "Modukudo. Fomobobi ro bagu ra fomobobi. Dorudu sa buba bo nin"[:60]
    assert prose(1000, seed=1) != prose(1000) == prose(2000)[:1000]


def test_the_entropy_is_that_of_the_drawn_sentences() -> None:
    """By the probabilities of the words of a long text, one by one."""
    topics, shared = vocabulary()
    assert len({word for words in (*topics, shared) for word in words}) == 8 * 40 + 24
    own, common = (dict(enumerate(chances(count).tolist())) for count in (40, 24))
    text, bits = prose(400_000), 0.0
    *whole, _ = text.split(". ")
    for sentence in whole:
        words = sentence.lower().split(" ")
        (topic,) = (each for each in topics if words[0] in each)
        bits -= math.log2(1 / TOPICS) + math.log2(0.25) + len(words) // 2 * math.log2(0.75)
        for place, word in enumerate(words):
            chance = common[shared.index(word)] if place % 2 else own[topic.index(word)]
            bits -= math.log2(chance)
    assert bits / sum(len(sentence) + 2 for sentence in whole) == pytest.approx(entropy(), rel=0.01)


def test_a_batch_of_text_is_from_the_first_piece_alone() -> None:
    none = Rows(torch.zeros(0, 256), torch.zeros(0, 256))
    sizes: Any = {"vocab_size": 20, "num_classes": 20, "last": False}
    text = Text(**sizes, training=torch.arange(20), validation=none, test=none)
    rows = text.batch(500, generator(0, "batches"), steps=5)
    assert rows.inputs.shape == rows.targets.shape == (500, 5)
    assert torch.equal(rows.targets, rows.inputs + 1)
    assert torch.equal(rows.inputs - rows.inputs[:, :1], torch.arange(5).expand(500, -1))
    assert set(rows.inputs[:, 0].tolist()) == set(range(15)), "up to the last that has a successor"


@pytest.mark.parametrize("name", NAMES)
def test_batches_depend_on_the_generator_alone(name: Any) -> None:
    draws = [sequences(name).batch(4, generator(seed, "batches")) for seed in (0, 0, 1)]
    assert torch.equal(draws[0].inputs, draws[1].inputs)
    assert torch.equal(draws[0].targets, draws[1].targets)
    assert not torch.equal(draws[0].inputs, draws[2].inputs)


@pytest.mark.parametrize("kind", KINDS)
def test_bits_are_those_of_every_character_from_the_zero_state(kind: NetworkKind) -> None:
    known = sequences("sentences")
    model, some = network("sentences", kind), Rows(*(each[:2, :40] for each in known.test))
    bits = []
    for row, follow in zip(some.inputs, some.targets.tolist(), strict=True):
        for step, target in enumerate(follow, start=1):
            weights = [math.exp(each) for each in model(row[None, :step])[0, -1].tolist()]
            bits.append(-math.log2(weights[target] / sum(weights)))
    assert known.score(model, some) == pytest.approx(sum(bits) / 80, rel=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_is_adam_with_clipped_gradients(kind: NetworkKind) -> None:
    """Three steps in float64, with gradients whose norms are above 1."""
    known, draws = sequences("digits, numbers"), generator(0, "batches")
    model, other = (network("digits, numbers", kind).double() for _ in range(2))
    for each in (model, other):
        each.head.weight.data *= 50
    learner, weights = Learner(model, 0.01), list(other.parameters())
    optimizer, norms = torch.optim.Adam(weights, 0.01, betas=(0.9, 0.999), eps=1e-8, foreach=False), []
    for _ in range(3):
        inputs, targets = known.batch(3, draws)
        loss = learner.step(Rows(inputs.double(), targets))
        scores = other(inputs.double()).log_softmax(dim=1)
        expected = -torch.stack([scores[row, each] for row, each in enumerate(targets)]).mean()
        torch.testing.assert_close(loss, expected.detach())
        gradients = torch.autograd.grad(expected, weights)
        norms.append(torch.cat([each.flatten() for each in gradients]).norm().item())
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.grad = gradient * min(1, 1 / (norms[-1] + 1e-6))
        optimizer.step()
    torch.testing.assert_close(list(model.parameters()), weights)
    assert max(norms) > 1.2 * min(norms) > 1.2, "so clipping changes where Adam goes"


def test_without_scikit_learn_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(InputError, match=r"pip install 'csprop\[lab\]'"):
        data.digits(as_levels=True)


def make(kind: NetworkKind, seed: int = 0, vocab_size: int = 5, last: bool = False) -> Network:
    sizes: Any = {"vocab_size": vocab_size, "num_classes": 3, "features": 8, "width": 6}
    return Network(kind, last=last, generator=torch.Generator().manual_seed(seed), **sizes)


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_and_numbers_give_scores_of_every_step_or_of_the_last(kind: NetworkKind) -> None:
    for vocab_size in (5, 0):
        x = torch.randint(5, (2, 7)) if vocab_size else torch.randn(2, 7, 1)
        every, last = (make(kind, vocab_size=vocab_size, last=last)(x) for last in (False, True))
        assert every.shape == (2, 7, 3)
        torch.testing.assert_close(last, every[:, -1])


@pytest.mark.parametrize("kind", KINDS)
def test_the_generator_decides_the_weights_of_a_network(kind: NetworkKind) -> None:
    torch.manual_seed(1)
    one = make(kind)
    torch.manual_seed(2)
    drawn = torch.rand(1)
    torch.manual_seed(2)
    same, other = make(kind), make(kind, seed=1)
    assert torch.equal(drawn, torch.rand(1)), "torch's own generator is as it was"
    torch.testing.assert_close(one.state_dict(), same.state_dict(), rtol=0, atol=0)
    assert not torch.equal(one.head.weight, other.head.weight)


def test_the_layer_of_a_network_is_the_one_that_is_named() -> None:
    layers = {kind: make(kind).layer for kind in KINDS}
    ours = layers["csprop"]
    assert isinstance(ours, CSPLayer)
    assert (ours.features, ours.vocab_size, ours.depth) == (8, 5, 1)
    assert (ours.layers[0].width, ours.layers[0].kind) == (6, "resonator")
    assert isinstance(layers["LSTM"].cells, torch.nn.LSTM)
    assert isinstance(layers["GRU"].cells, torch.nn.GRU)


def small(**changes: Any) -> LayerJob:
    values: dict[str, Any] = {"features": 8, "width": 6, "steps": 3, "batch_size": 4}
    return replace(job("digits, levels", "csprop", 0.01, 3, 0), **values | changes)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_is_what_training_gives(kind: NetworkKind) -> None:
    jobs = [small(kind=kind, seed=seed, steps=45) for seed in (3, 4)]
    rows = measure(jobs)
    for row, seed in zip(rows, (3, 4), strict=True):
        known, draws = sequences("digits, levels"), generator(seed, "batches")
        learner = Learner(known.network(kind, 8, 6, generator(seed, "weights")), 0.01)
        losses = [learner.step(known.batch(4, draws)).item() for _ in range(45)]
        with torch.no_grad():
            answers = learner.network(known.test.inputs).argmax(dim=1)
        assert row["result"]["test"] == (answers == known.test.targets).double().mean()
        assert row["result"]["validation"] == known.score(learner.network, known.validation)
        assert row["curve"]["loss"] == pytest.approx(
            [sum(losses[start : start + 3]) / 3 for start in range(0, 45, 3)], rel=1e-3
        )
        assert 0 < row["training_seconds"] <= row["seconds"]
        json.dumps(row)
    assert rows[0]["result"] != rows[1]["result"]


def test_a_network_that_diverges_is_a_row() -> None:
    (row,) = measure([small(kind="GRU", lr=1e38)])
    assert row["diverged"] == "a loss was not finite"
    assert "result" not in row


def row(data: str, validation: float, test: float) -> dict[str, Any]:
    return {"job": {"data": data}, "result": {"validation": validation, "test": test}}


def test_the_learning_rate_is_that_of_the_better_mean_on_validation() -> None:
    """Whatever test says; fewer bits are better, and a seed that diverged has the worst score."""
    low, high = map(str, RATES["sentences"])
    digits, text = ("digits, levels", "ours"), ("sentences", "ours")
    lost = {"job": {"data": "sentences"}, "diverged": "a loss was not finite"}
    rows: dict[Any, list[dict[str, Any]]] = {
        (*digits, low): [row(digits[0], 0.5, 0.875), row(digits[0], 0.75, 1.0)],
        (*digits, high): [row(digits[0], 1.0, 0.5), row(digits[0], 0.5, 0.25)],
        (*text, low): [row("sentences", 2.5, 2.0), row("sentences", 2.0, 4.0)],
        (*text, high): [row("sentences", 1.0, 1.0), lost],
    }
    assert chosen(rows, *digits) == high
    assert chosen(rows, *text) == low
