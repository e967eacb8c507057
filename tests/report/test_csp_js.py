"""The model in the page's JavaScript computes the scores and states of the model in Python."""

import json
import random
import shutil
import subprocess
from typing import Any, get_args, get_type_hints

import pytest
import torch

import csprop
from csprop.cells import BUILT_IN, Cell, Paper, Rotor, Router
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

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


def run_javascript(cases: list[dict[str, Any]], script: str = SCRIPT) -> list[Any]:
    done = subprocess.run(
        ["node", "-e", "\n".join([*map(asset, MODEL), script])],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def draw_cell(draw: random.Random, kind: type[Cell], order: int, rank: int) -> Cell:
    hints = get_type_hints(kind)
    options = {name: draw.choice(get_args(hint)) for name, hint in hints.items() if get_args(hint)}
    options |= {name: draw.random() < 0.5 for name, hint in hints.items() if hint is bool}
    options |= {Rotor: {"order": order}, Router: {"places": draw.choice([0, 2, 3]),
                "maps": draw.choice([0, 1, 3])}}.get(kind, {})  # fmt: skip
    if kind is Paper:
        options |= {"coupling_rank": rank} if rank else {"coupling": "shared"}
    options.pop("kind", None)
    return kind(**options)


def draw_config(draw: random.Random) -> CSPConfig:
    """Draw a model of one kind of cell, or every third time of several."""
    depth, kinds = draw.randint(1, 3), list(BUILT_IN.values())
    if draw.random() < 0.3:
        cells = [draw_cell(draw, draw.choice(kinds), 2, 0) for _ in range(depth)]
    else:
        rank = draw.choice([0, 1, 2]) if depth > 1 else 0
        cells = [draw_cell(draw, draw.choice(kinds), draw.choice([2, 3, 4]), rank)] * depth
    return CSPConfig(
        width=6,
        cells=cells,
        decoder=draw.choice(["cos_sin", "linear"] + ["phase", "complex"] * (cells[0].order == 2)),
        vocab_size=draw.randint(1, 4),
        num_classes=draw.randint(2, 4),
    )


def test_every_cell_gives_the_same_scores_and_states() -> None:
    draw, cases, models = random.Random(0), [], []
    for number in range(100):
        config = draw_config(draw)
        model = csprop.CSP(config, torch.Generator().manual_seed(number))
        for name, value in model.named_parameters():  # couplings start at 0, norms at the identity
            if any(part in name for part in ("couplings", "norm", "keys", "angle")):
                torch.nn.init.normal_(value, generator=torch.Generator().manual_seed(number))
        rows = [[draw.randrange(config.vocab_size) for _ in range(24)] for _ in range(2)]
        cases.append({"model": embed.embed_network(model), "rows": rows})
        models.append(model.double())
    with csprop.use_backend("reference"):
        for case, model, rows in zip(cases, models, run_javascript(cases), strict=True):
            state = model.initial_state(2)
            for t, tokens in enumerate(torch.tensor(case["rows"]).unbind(1)):
                state, scores = model.step(state, tokens)
                for row in range(2):
                    for one, two in zip(rows[row][t], (scores[row], state[row]), strict=True):
                        torch.testing.assert_close(
                            torch.tensor(one, dtype=torch.float64), two.detach(), rtol=1e-5, atol=1e-5,
                            msg=lambda words, config=model.config: f"{config}: {words}",
                        )  # fmt: skip


def test_places_are_sent_and_reached_as_in_python() -> None:
    """A page leaves out the places that no sequence of twelve tokens leads to."""
    script = """
    const models = JSON.parse(require("fs").readFileSync(0, "utf8")).map((each) => new CSP.Model(each));
    console.log(JSON.stringify(models.map(({ layers: [layer] }) => [layer.targets, layer.reached()])));
    """
    sizes: dict[str, Any] = {"vocab_size": 3, "num_classes": 2, "width": 12, "depth": 1}
    models = [
        csprop.CSP(
            CSPConfig(cell=Router(places=places), **sizes), torch.Generator().manual_seed(places)
        )
        for places in (3, 4, 6, 12)
    ]
    answers = run_javascript([embed.embed_network(model) for model in models], script)
    for model, (targets, reached) in zip(models, answers, strict=True):
        assert targets == model.routers[0].targets().tolist()
        places = set(range(0, 12, model.routers[0].places))
        for _ in range(12):
            places |= {each[place] for place in places for each in targets}
        assert reached == sorted(places)


@pytest.mark.parametrize(("depth", "order"), [(1, 3), (2, 2)])
def test_a_locked_model_snaps_to_the_same_codes(depth: int, order: int) -> None:
    """The codes are random: both must find the same one nearest."""
    config = CSPConfig(
        vocab_size=3, num_classes=4, width=5, depth=depth, cell=Rotor(order=order, recall=depth > 1),
        decoder="linear",
    )  # fmt: skip
    draws = torch.Generator().manual_seed(depth)
    network = csprop.CSP(config, draws)
    codes = [torch.randn(6, order, 5, generator=draws) for _ in range(depth)]
    kept = torch.rand(depth, 5, generator=draws) < 0.7
    model = Locked(network, codes, kept, symbols=3)
    automaton = model.automaton("abc", "wxyz", words=False).minimal()
    rows = torch.randint(3, (4, 50), generator=draws)
    (steps,) = run_javascript([{"model": embed.embed_locked(model, automaton), "rows": rows.tolist()}])
    scores = torch.tensor([[scores for scores, _ in row] for row in steps])
    torch.testing.assert_close(scores, model(rows), rtol=1e-5, atol=1e-5)
