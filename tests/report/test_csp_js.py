"""The model in the page's JavaScript computes what it computes in Python."""

import json
import random
import shutil
import subprocess
from dataclasses import asdict
from typing import Any, get_args, get_type_hints

import pytest
import torch

import csprop
from csprop.errors import InputError
from csprop.nn.config import CSPConfig
from csprop.proof.locked import Locked
from csprop.report import embed
from csprop.report.page import MODEL, asset

SCRIPT = """
const cases = JSON.parse(require("fs").readFileSync(0, "utf8"));
const run = ({ model, rows }) => rows.map((row) =>
  new CSP.Model(model).run(row).slice(1).map(({ scores, states }) =>
    [Array.from(scores), states.map((planes) => planes.map((plane) => Array.from(plane)))]));
console.log(JSON.stringify(cases.map(run)));
"""

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


def in_javascript(cases: list[dict[str, Any]], script: str = SCRIPT) -> list[Any]:
    done = subprocess.run(
        ["node", "-e", "\n".join([*map(asset, MODEL), script])],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


PRINTED = {"input_map": "none", "entrance": "softplus", "gate_input": "input"}
PRINTED |= {"recurrence": "sequential", "projection": "tanh", "embedding": "complex"}


def any_config(draw: random.Random) -> CSPConfig:
    """A model with every option drawn, until they go together; every other one is the paper's, but for
    parts of the authors' code."""
    hints = get_type_hints(CSPConfig)
    released = draw.random() < 0.5
    while True:
        options = {name: draw.choice(get_args(hint)) for name, hint in hints.items() if get_args(hint)}
        options |= {name: draw.random() < 0.5 for name, hint in hints.items() if hint is bool}
        options |= {
            "width": draw.randint(1, 6),
            "depth": draw.randint(1, 3),
            "order": draw.choice([2, 2, 3, 4, 5]),
            "coupling_rank": draw.choice([0, 1, 2]),
            "vocab_size": draw.randint(1, 4),
            "num_classes": draw.randint(2, 4),
            "kinds": [],
        }
        if released:
            options |= {"order": 2, "decay": draw.choice(["softplus", "exp", "exp", "unit"])}
            options |= {} if options["coupling_rank"] else {"coupling": "shared"}
            options["enter"] = "input"
            if options["recurrence"] == "cumulative":  # what goes with it is rarely drawn
                options |= {"decay": "exp", "entrance": "sine", "coupling_rank": 0, "recall": False}
                options["coupling"] = "shared"
        elif draw.random() < 0.3:
            options |= PRINTED | {
                "width": 6,
                "places": draw.choice([2, 3, 6]),
                "maps": draw.choice([0, 1, 3]),
            }
            options |= {
                "projection": draw.choice(["tanh", "affine", "atan2"]),
                "decay": "none",
                "activation": draw.choice(["none", "boundary"]),
                "order": 2,
            }
            options |= {
                "h0": draw.choice(["place", "learned"]),
                "coupling_rank": 0,
                "coupling": "shared",
            }
        else:
            options |= PRINTED | {"embedding": options["embedding"]}
        if not released and not options.get("places") and draw.random() < 0.2:
            known = ["rotor", "router", "counter", "switch"]
            options["kinds"] = [draw.choice(known) for _ in range(options["depth"])]
        try:
            return CSPConfig(**options)
        except InputError:
            continue


@needs_node
def test_every_option_gives_the_same_scores_and_states() -> None:
    draw, cases, models = random.Random(0), [], []
    for number in range(100):
        config = any_config(draw)
        model = csprop.CSP(config, torch.Generator().manual_seed(number))
        for name, value in model.named_parameters():  # couplings start at 0, norms at the identity
            if any(part in name for part in ("couplings", "norm", "keys", "angle")):
                torch.nn.init.normal_(value, generator=torch.Generator().manual_seed(number))
        rows = [[draw.randrange(config.vocab_size) for _ in range(24)] for _ in range(2)]
        cases.append({"model": embed.embed_network(model), "rows": rows})
        models.append(model.double())
    drawn = {(name, value) for each in models for name, value in asdict(each.config).items()}
    literals = {name: hint for name, hint in get_type_hints(CSPConfig).items() if name != "kinds"}
    assert {(name, value) for name, hint in literals.items() for value in get_args(hint)} <= drawn
    with csprop.use_backend("reference"):
        for case, model, found in zip(cases, models, in_javascript(cases), strict=True):
            state = model.initial_state(2)
            for t, tokens in enumerate(torch.tensor(case["rows"]).unbind(1)):
                state, scores = model.step(state, tokens)
                for row in range(2):
                    for one, two in zip(found[row][t], (scores[row], state[row]), strict=True):
                        torch.testing.assert_close(
                            torch.tensor(one, dtype=torch.float64), two.detach(), rtol=1e-5, atol=1e-5,
                            msg=lambda words, config=model.config: f"{config}: {words}",
                        )  # fmt: skip


@needs_node
def test_places_are_sent_and_reached_as_in_python() -> None:
    """What a page leaves out is what no sequence of twelve tokens or fewer leads to."""
    script = """
    const models = JSON.parse(require("fs").readFileSync(0, "utf8")).map((each) => new CSP.Model(each));
    console.log(JSON.stringify(models.map((model) => [model.targets[0], model.reached(0)])));
    """
    options: dict[str, Any] = {"depth": 1, "decay": "none", "rotate": "none", "activation": "none"}
    options |= {"skip": False, "norm": "none", "h0": "place", "decoder": "linear"}
    models = [
        csprop.CSP(
            CSPConfig(width=12, places=places, vocab_size=3, num_classes=2, **options),
            torch.Generator().manual_seed(places),
        )
        for places in (3, 4, 6, 12)
    ]
    for model, (targets, reached) in zip(
        models, in_javascript([embed.embed_network(model) for model in models], script), strict=True
    ):
        assert targets == model.routers[0].targets().tolist()
        groups = range(0, 12, model.config.places)
        found = set(groups)
        for _ in range(12):
            found |= {sent[place] for place in found for sent in targets}
        assert reached == sorted(found)


@needs_node
@pytest.mark.parametrize(("depth", "order"), [(1, 3), (2, 2)])
def test_a_locked_model_snaps_to_the_same_codes(depth: int, order: int) -> None:
    """The codes are random: what matters is that both find the same ones near."""
    options: dict[str, Any] = {"rotate": "state", "angle": "free", "rotation": "per_channel"}
    options |= {"decay": "switch", "gate": "per_channel", "activation": "none", "norm": "none"}
    options |= {"h0": "learned", "decoder": "linear", "recall": depth > 1}
    config = CSPConfig(width=5, depth=depth, order=order, vocab_size=3, num_classes=4, **options)
    draws = torch.Generator().manual_seed(depth)
    network = csprop.CSP(config, draws)
    codes = [torch.randn(6, order, 5, generator=draws) for _ in range(depth)]
    kept = torch.rand(depth, 5, generator=draws) < 0.7
    model = Locked(network, codes, kept, symbols=3)
    automaton = model.automaton("abc", "wxyz", words=False).minimal()
    rows = torch.randint(3, (4, 50), generator=draws)
    (found,) = in_javascript([{"model": embed.embed_locked(model, automaton), "rows": rows.tolist()}])
    scores = torch.tensor([[said for said, _ in row] for row in found])
    torch.testing.assert_close(scores, model(rows), rtol=1e-5, atol=1e-5)


@needs_node
@pytest.mark.parametrize("rotation", ["shared", "per_channel"])
def test_a_locked_model_with_parts_of_the_authors_code_has_codes_of_all_planes(rotation: str) -> None:
    options: dict[str, Any] = {"angle": "accumulated", "entrance": "sine", "gate_input": "entering"}
    options |= {"recurrence": "cumulative", "decay": "exp", "norm": "root", "embedding": "narrow"}
    options |= {"input_map": "affine", "projection": "atan2", "rotation": rotation}
    config = CSPConfig(width=5, depth=2, vocab_size=3, num_classes=4, **options)
    draws = torch.Generator().manual_seed(1)
    codes = [torch.randn(6, 5, 5, generator=draws) for _ in range(2)]
    kept = torch.tensor([[True, True, False, True, True], [False, True, True, True, True]])
    model = Locked(csprop.CSP(config, draws), codes, kept, symbols=3)
    automaton = model.automaton("abc", "wxyz", words=False).minimal()
    rows = torch.randint(3, (4, 50), generator=draws)
    (found,) = in_javascript([{"model": embed.embed_locked(model, automaton), "rows": rows.tolist()}])
    scores = torch.tensor([[said for said, _ in row] for row in found])
    torch.testing.assert_close(scores, model(rows), rtol=1e-5, atol=1e-5)
    assert len(scores.flatten(0, 1).unique(dim=0)) > 2
