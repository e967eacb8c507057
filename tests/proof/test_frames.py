"""Models with summed angles, locked: the sum of a layer, rounded, as a rotor."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import csprop
from csprop import CSP, CSPConfig, tasks
from csprop.cli.main import main
from csprop.errors import InputError
from csprop.proof.certify import certify
from csprop.proof.examples import Labelled
from csprop.proof.frames import MOST_PARTS, angles, framed
from csprop.proof.opened import opened
from csprop.tasks.base import every_sequence
from csprop.training.checkpoint import CERTIFICATE, LOCKED, RunFolder
from csprop.training.presets import preset

QUICK: dict[str, Any] = {"lr": 1e-3, "epochs": 12, "hold": 2, "samples": 5000}


def turning(turns: list[float], task: str = "parity", layer: int = 0) -> CSP:
    """A released model in which a layer turns by these fractions of a turn, the others by nothing."""
    known = tasks.get(task)
    options = vars(preset("released", known).model) | {"width": 4, "embedding": "complex"}
    config = CSPConfig(vocab_size=len(known.vocab), num_classes=len(known.classes), **options)
    model = CSP(config)
    with torch.no_grad():
        model.embedding.zero_()
        for number, block in enumerate(model.layers):
            block.angle.weight.zero_()
            block.angle.weight[0, 3] = 5.0  # channel 3 of the real plane: a direction of 0
            if number < layer:  # what is added to nothing but the skip stays what it is
                block.get_parameter("map.weight").zero_()
        model.embedding[:, 0, 3] = 1.0
        for token, turn in enumerate(turns):
            model.embedding[token, 0, token] = 1.0
            direction = torch.tensor([math.cos(2 * math.pi * turn), math.sin(2 * math.pi * turn)])
            model.layers[layer].angle.weight[:, token] = torch.atanh(0.9 * direction)
        model.layers[layer].angle.weight[0, 3] = 0.0
    return model.eval()


def rows(task: str = "parity", count: int = 300) -> Labelled:
    known = tasks.get(task)
    return Labelled.of(known.examples(count, 12, torch.Generator().manual_seed(0)))


@pytest.mark.parametrize(("turns", "parts"), [([0, 0.5], 2), ([0.01, 0.26], 4), ([0.5, -0.24], 4)])
def test_the_coarsest_count_that_gives_all_answers_is_found(turns: list[float], parts: int) -> None:
    found = framed(turning(turns), rows())
    assert found is not None
    rotor, frame = found
    assert (frame.layer, frame.parts, frame.misses) == (1, parts, 0)
    assert [move % parts for move in frame.moves] == [round(turn * parts) % parts for turn in turns]
    tokens = every_sequence(2, 8)
    assert torch.equal(rotor(tokens).argmax(dim=2), tokens.cumsum(dim=1) % 2)


@pytest.mark.parametrize("parts", range(2, MOST_PARTS + 1))
def test_the_rotor_gives_any_answer_at_any_count(parts: int) -> None:
    task = f"mod{parts}-residue" if parts > 2 else "parity"
    found = framed(turning([0.0, 1 / parts], task), rows(task, 600))
    assert found is not None
    rotor, frame = found
    assert (frame.parts, frame.misses) == (parts, 0)
    tokens = every_sequence(2, 10)
    assert torch.equal(rotor(tokens).argmax(dim=2), tokens.cumsum(dim=1) % parts)


@pytest.mark.parametrize(("turn", "counts"), [(0.54, True), (0.56, False), (0.0625, False)])
def test_angles_must_be_near_a_fraction_of_a_turn(turn: float, counts: bool) -> None:
    found = framed(turning([0.0, turn]), rows())  # 0.54 is 0.08 of a half beside it, 0.56 0.12
    assert found is not None  # the other layers turn by nothing at all
    assert (found[1].misses == 0) == counts


def test_a_token_that_does_not_occur_has_no_angle() -> None:
    examples = rows()
    assert (
        framed(turning([0.0, 0.5]), Labelled(torch.zeros_like(examples.tokens), examples.labels))
        is None
    )


def test_padding_has_no_part_in_the_angle_of_a_token() -> None:
    """Short rows end with tokens that nobody read, and those may be any."""
    model, examples = turning([0.25, 0.5]), rows()
    labels = examples.labels.clone()
    labels[:, 6:] = -1
    padded = examples.tokens.clone()
    padded[:, 6:] = 1
    padded[:, :6] = 0
    assert framed(model, Labelled(padded, labels)) is None  # token 1 is never read


def test_a_coupling_has_its_part_in_the_angles_of_the_layers_above() -> None:
    options = {"width": 4, "embedding": "complex", "coupling_rank": 1}
    known = vars(preset("released", tasks.get("parity")).model)
    model = CSP(CSPConfig(vocab_size=2, num_classes=2, **known | options))
    seen: list[torch.Tensor] = []
    block = model.layers[2]
    block.register_forward_pre_hook(lambda _, inputs: seen.append(block.theta(inputs[0])))
    tokens = rows().tokens
    with torch.no_grad():
        model(tokens)
        found = angles(model, tokens)[2]
    torch.testing.assert_close(found, seen[0])


def test_a_model_that_has_learned_nothing_is_refused_though_its_angles_would_do() -> None:
    found = certify(turning([0.0, 0.5]), "parity", rows())
    assert (found.proven, found.verdict) == (False, "not learned")


def test_a_count_that_loses_answers_is_refused_and_named() -> None:
    model, examples = turning([0.0, 1 / 3]), rows()
    with torch.no_grad():
        own = model(examples.tokens).argmax(dim=2)  # a function of more than the count modulo 3
    found = framed(model, Labelled(examples.tokens, own))
    assert found is not None
    assert found[1].misses
    refused = certify(model, "parity", Labelled(examples.tokens, own))
    assert (refused.proven, refused.verdict) == (False, "not finite")
    assert "the best count, the summed angle of layer" in refused.statement
    assert f"misclassifies {found[1].misses} training labels" in refused.statement


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A released model of mod3-residue whose first layer counts."""
    path = tmp_path_factory.mktemp("released") / "run"
    trained = csprop.train("mod3-residue", preset="released", seed=2, out=path, **QUICK)
    assert trained.result is not None
    assert trained.result.accuracy == 1
    assert main(["certify", str(path)]) == 0
    return path


def test_a_certified_run_is_read_back_with_torch_and_without(run: Path) -> None:
    served, alone = csprop.load(run), opened(run)
    assert served.certificate is not None
    assert alone is not None
    assert served.certificate.proven
    assert alone.certificate.proven
    assert served.certificate.document["search"]["frame"]["parts"] == 3
    assert "rotor made from the trained one" in served.certificate.statement
    assert served.predict(["0110111"]) == ["2"]
    assert main(["certify", str(run), "--check"]) == 0


def test_the_model_as_trained_is_still_the_released_one(run: Path) -> None:
    served = csprop.load(run)
    assert served.model.config.summed
    assert served.locked is not None
    assert served.locked.network.config == served.model.config.as_rotor(1)  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("search", "frame", "layer"), -1), (("search", "frame", "parts"), 4), (("model", "width"), 2),
        (("model", "decay"), "reset"), (("search", "frame"), None), (("statement",), "All is well."),
    ],
)  # fmt: skip
def test_an_edited_certificate_is_refused(
    run: Path, tmp_path: Path, place: tuple[str, ...], value: Any
) -> None:
    copy = shutil.copytree(run, tmp_path / "run")
    folder = RunFolder(copy)
    document = json.loads((copy / CERTIFICATE).read_text())
    inner = document
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    folder.write_json(CERTIFICATE, document)
    with pytest.raises(InputError):
        csprop.load(copy).certificate  # noqa: B018
    assert opened(copy) is None


def test_weights_of_another_count_are_refused(run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run, tmp_path / "run")
    folder = RunFolder(copy)
    content = bytearray(folder.read(LOCKED))
    content[-5] ^= 0x40
    folder.write(LOCKED, bytes(content))
    with pytest.raises(InputError):
        csprop.load(copy).certificate  # noqa: B018
    assert main(["certify", str(copy), "--check"]) != 0
