"""Sequences that layers of features are compared on: what is in them, and what a score says."""

import math
import sys
from typing import Any, get_args

import pytest
import torch
from sklearn.datasets import load_digits

from csprop.errors import InputError
from csprop.training.seeding import generator
from csprop_lab.signals import sequences as data
from csprop_lab.signals.networks import NetworkKind
from csprop_lab.signals.prose import TOPICS, chances, entropy, prose, vocabulary
from csprop_lab.signals.sequences import Learner, Rows, Text, sequences, size_of

NAMES = get_args(data.DataName)


def network(name: Any, kind: NetworkKind, features: int = 8) -> data.Network:
    return sequences(name).network(kind, features, 6, generator(0, "weights"))


@pytest.mark.parametrize("name", NAMES)
def test_all_networks_for_a_data_set_have_about_one_size(name: Any) -> None:
    """Within a fiftieth; those of the study have to be within a twentieth."""
    sizes = [
        size_of(
            sequences(name).network(kind, features, data.CHANNELS.get(kind, 0), generator(0, "weights"))
        )
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
    whole = sorted([*picture, label] for picture, label in zip(pictures.tolist(), labels, strict=True))
    pixels, digits = (torch.cat(each) for each in zip(*parts[0], strict=True))
    assert sorted(
        [*row, digit] for row, digit in zip(pixels.tolist(), digits.tolist(), strict=True)
    ) == (whole)
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
    text = Text(
        vocab_size=20, num_classes=20, last=False, training=torch.arange(20), validation=none, test=none
    )
    rows = text.batch(500, generator(0, "batches"), steps=5)
    assert rows.inputs.shape == rows.targets.shape == (500, 5)
    assert torch.equal(rows.targets, rows.inputs + 1)
    assert torch.equal(rows.inputs - rows.inputs[:, :1], torch.arange(5).expand(500, -1))
    assert set(rows.inputs[:, 0].tolist()) == set(range(15)), "up to the last that has a successor"


@pytest.mark.parametrize("name", NAMES)
def test_batches_hang_on_the_generator_alone(name: Any) -> None:
    draws = [sequences(name).batch(4, generator(seed, "batches")) for seed in (0, 0, 1)]
    assert torch.equal(draws[0].inputs, draws[1].inputs)
    assert torch.equal(draws[0].targets, draws[1].targets)
    assert not torch.equal(draws[0].inputs, draws[2].inputs)


def test_an_accuracy_is_the_share_of_right_answers() -> None:
    known = sequences("digits, levels")
    model, some = network("digits, levels", "GRU"), Rows(*(each[:50] for each in known.test))
    right = 0
    for picture, digit in zip(some.inputs, some.targets.tolist(), strict=True):
        scores = model(picture[None])[0].tolist()
        right += scores.index(max(scores)) == digit
    assert known.score(model, some) == pytest.approx(right / 50)


@pytest.mark.parametrize("kind", get_args(NetworkKind))
def test_bits_are_those_of_every_character_from_the_zero_state(kind: NetworkKind) -> None:
    known = sequences("sentences")
    model, some = network("sentences", kind), Rows(*(each[:2, :40] for each in known.test))
    bits = []
    for row, follow in zip(some.inputs, some.targets.tolist(), strict=True):
        for step, target in enumerate(follow, start=1):
            weights = [math.exp(each) for each in model(row[None, :step])[0, -1].tolist()]
            bits.append(-math.log2(weights[target] / sum(weights)))
    assert known.score(model, some) == pytest.approx(sum(bits) / 80, rel=1e-4)


@pytest.mark.parametrize("kind", get_args(NetworkKind))
def test_a_step_is_adam_with_clipped_gradients(kind: NetworkKind) -> None:
    """Against Adam's first three steps written out, in float64, with gradients large enough."""
    known, draws = sequences("digits, numbers"), generator(0, "batches")
    model, other = (network("digits, numbers", kind).double() for _ in range(2))
    with torch.no_grad():
        for each in (model, other):
            each.head.weight *= 50
    learner, norms = Learner(model, 0.01), []
    means = [torch.zeros_like(each) for each in other.parameters()]
    squares = [torch.zeros_like(each) for each in other.parameters()]
    for number in (1, 2, 3):
        inputs, targets = known.batch(3, draws)
        rows = Rows(inputs.double(), targets)
        loss = learner.step(rows)
        scores = other(rows.inputs).log_softmax(dim=1)
        chosen = [scores[row, target] for row, target in enumerate(rows.targets.tolist())]
        want = -torch.stack(chosen).sum() / 3
        assert loss.item() == pytest.approx(want.item())
        gradients = torch.autograd.grad(want, list(other.parameters()))
        norm = math.sqrt(sum((each**2).sum().item() for each in gradients))
        norms.append(norm)
        with torch.no_grad():
            for weight, each, mean, square in zip(
                other.parameters(), gradients, means, squares, strict=True
            ):
                each = each * min(1, 1 / (norm + 1e-6))
                mean += 0.1 * (each - mean)
                square += 0.001 * (each**2 - square)
                far = mean / (1 - 0.9**number) / ((square / (1 - 0.999**number)).sqrt() + 1e-8)
                weight -= 0.01 * far
    for got, want in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(got, want)
    assert max(norms) > 1.2 * min(norms) > 1.2, "so that clipping changes where Adam goes"


def test_without_scikit_learn_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(InputError, match=r"pip install 'csprop\[lab\]'"):
        data.digits(as_levels=True)
