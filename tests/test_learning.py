"""What the README promises: the default preset learns the paper's tasks, to the last input."""

import pytest

import csprop


@pytest.mark.parametrize("task", ["parity", "mod3", "mod3-residue", "parenthesis"])
def test_the_default_preset_is_right_on_every_input(task: str) -> None:
    run = csprop.train(task, seed=0)
    assert run.result is not None
    assert (run.result.accuracy, run.result.f1) == (1.0, 1.0)
    every = run.result.exhaustive
    assert every is not None
    assert (every.count, every.wrong) == (65_536, 0)


@pytest.mark.parametrize("name", ["tomita-3", "even-pairs"])
def test_a_router_learns_a_task_and_is_proven(name: str) -> None:
    run = csprop.train(name, samples=2000)
    assert run.config.preset == "router"
    assert run.result is not None
    assert run.result.learned
    assert run.certify().verdict == "proven for all lengths"
