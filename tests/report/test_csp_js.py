"""The model in the page's JavaScript computes the scores and states of the model in Python."""

import json
import shutil
import subprocess
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import csprop
from csprop import CSP, Counter, CSPConfig, Rotor, Router
from csprop.proof.locked import Locked
from csprop.report import embed
from csprop.report.page import MODEL, asset
from tests.helpers import options

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


def compare(models: list[CSP]) -> None:
    """Compare scores and states after each of 12 tokens."""
    rows = torch.randint(3, (2, 12), generator=torch.Generator().manual_seed(0))
    cases = [{"model": embed.embed_network(model), "rows": rows.tolist()} for model in models]
    with csprop.use_backend("reference"):
        for model, answers in zip(models, run_javascript(cases), strict=True):
            state, steps = model.double().initial_state(2), []
            for tokens in rows.unbind(1):
                state, scores = model.step(state, tokens)
                steps.append(torch.cat([scores, state.flatten(1)], dim=1).detach())
            numbers = [[[*a, *torch.tensor(b).flatten().tolist()] for a, b in row] for row in answers]
            found = torch.tensor(numbers, dtype=torch.float64)
            words = lambda text, config=model.config: f"{config}: {text}"  # noqa: E731
            torch.testing.assert_close(found, torch.stack(steps, 1), rtol=1e-5, atol=1e-5, msg=words)


def test_every_option_of_a_cell_gives_the_same_scores_and_states() -> None:
    compare([options.model(options.config(cell)) for cell in options.vary().values()])


def test_increments_are_rounded_with_halves_to_even_numbers() -> None:
    model = options.model(options.config(Counter(), depth=1))
    with torch.no_grad():
        model.embedding[:, 0, :3] = torch.tensor([0.5, 1.5, -2.5])
    compare([model])


@settings(max_examples=3)
@given(st.lists(options.configs(), min_size=20, max_size=20))
def test_every_model_gives_the_same_scores_and_states(configs: list[CSPConfig]) -> None:
    compare([options.model(config) for config in configs])


def test_places_are_sent_and_reached_as_in_python() -> None:
    """A page leaves out the places that no sequence of twelve tokens leads to."""
    script = """
    const models = JSON.parse(require("fs").readFileSync(0, "utf8")).map((each) => new CSP.Model(each));
    console.log(JSON.stringify(models.map(({ layers: [layer] }) => [layer.targets, layer.reached()])));
    """
    sizes: dict[str, Any] = {"vocab_size": 3, "num_classes": 2, "width": 12, "depth": 1}
    configs = [CSPConfig(cell=Router(places=places), **sizes) for places in (3, 4, 6, 12)]
    models = [options.model(config) for config in configs]
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
