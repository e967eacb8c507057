"""Runs that are not trained: a machine is written into the weights of a model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from csprop.automata.automaton import Automaton, CounterAutomaton
from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine
from csprop.automata.sources import read_automaton, to_automaton
from csprop.errors import InputError
from csprop.proof.certify import certify_machine
from csprop.runs.run import Run
from csprop.tasks import resolve
from csprop.tasks.base import Task
from csprop.tasks.machine import machine_task
from csprop.training.checkpoint import refuse_existing
from csprop.training.config import RunConfig, names_of
from csprop.training.metrics import at_length, score
from csprop.training.presets import Recipe
from csprop.training.presets import preset as preset_of
from csprop.training.scores import Evidence, Result
from csprop.training.stored import within


def from_machine(
    task: Task,
    machine: Machine | CounterMachine,
    out: str | Path | None = None,
    seed: int = 0,
    verdict: Evidence | None = None,
    recipe: Recipe | None = None,
    files: Mapping[str, bytes] | None = None,
) -> Run:
    """Return a certified run whose model has a machine in its weights.

    Args:
        task: the machine's own task (`machine_task`), a data file or any other.
        machine: finite or counting; has the task's tokens and classes, in their order.
        out: a run directory to write; without it, the run is kept in memory.
        seed: the seed that splits a data file into training and held-out rows.
        verdict: the numbers behind a machine that was learned.
        recipe: says which rows were learned from; by default, the preset's recipe.
        files: more files for the run directory.
    """
    _check_fits(task, machine)
    if out is not None:
        refuse_existing([out], resumable=False)
        task = within(task, Path(out))
    preset = "counter" if isinstance(machine, CounterMachine) else "router"
    model, proof = certify_machine(machine, task)
    recipe = recipe or preset_of(preset, task).recipe
    config = RunConfig(
        task=task.describe(), preset=preset, seed=seed, model=model.config, recipe=recipe
    )
    model.trained_as, model.names = config, names_of(task)
    locked, drawn = proof.locked or model, task.oracle is not None
    scores = at_length(locked, task, recipe.length, seed) if drawn else score(locked, task.data)
    result = Result(
        epochs=0,
        ended="compiled from a machine",
        accuracy=scores.accuracy,
        f1=scores.f1,
        parameters=sum(each.numel() for each in model.parameters()),
        verdict=verdict,
    )
    run = Run(model, task, config, [], result)
    run._certificate, run._read = proof, True
    if out is not None:
        run._save(out, files or {})
        run.path = Path(out)
    return run


def _check_fits(task: Task, machine: Machine | CounterMachine) -> None:
    outputs = (machine.control if isinstance(machine, CounterMachine) else machine).outputs
    fits = machine.symbols == len(task.vocab)
    fits = fits and max(output or 0 for output in outputs) < len(task.classes)
    if isinstance(machine, Automaton | CounterAutomaton):
        fits = fits and (machine.vocab, machine.classes) == (task.vocab, task.classes)
    if not fits:
        raise InputError(f"{task.name}: the machine has other tokens or classes than the task")


def compile(machine: Any, out: str | Path | None = None) -> Run:
    """Write a machine into the weights of a model, and prove that both give the same answers.

    Args:
        machine: an `Automaton` or `CounterAutomaton`, a file of one in JSON as `csprop automaton`
            prints it, a DFA of automata-lib, or a Dfa, MooreMachine or MealyMachine of AALpy. A DFA
            may be incomplete: a sequence without a transition is rejected.
        out: a run directory to write; without it, the run is kept in memory.

    Returns:
        The run, certified. Its task is to answer as the machine does.

    Raises:
        InputError: the machine or the file is malformed, incomplete or too large, or the directory
            already holds a run.
    """
    if isinstance(machine, str | Path):
        task = machine_task(read_automaton(machine), Path(machine).name)
    else:
        task = machine_task(to_automaton(machine))
    return from_machine(resolve(task), task.automaton, out)
