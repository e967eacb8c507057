"""Methods that learn a language from labelled rows: csprop, state merging by AALpy, and an LSTM.

All get the same rows, and are tested with the same fresh ones. Seconds are processor
time, on which other processes have little influence.
"""

import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from typing import Any

import numpy as np

from csprop import Automaton, CSPConfig, Learned, learn
from csprop.automata.counting import CounterMachine
from csprop.automata.machine import Machine
from csprop.automata.walk import Oracle
from csprop.data.examples import UNLABELLED, Examples
from csprop.data.packing import pack
from csprop.errors import Diverged
from csprop.proof.certify import certify_machine
from csprop.tasks import Task
from csprop.tasks.rows import RowsTask
from csprop.training.batches import training_data
from csprop.training.config import RunConfig, configure
from csprop.training.loop import Trainer
from csprop.training.metrics import last_logits
from csprop.training.presets import Recipe
from csprop.training.scores import Sampling
from csprop.training.seeding import generator
from csprop_lab.layers.basic import Peer, PeerConfig
from csprop_lab.layers.frame import Frame, FrameConfig
from csprop_lab.study import bliss
from csprop_lab.study.job import FileJob, Job, sizes_of
from csprop_lab.study.languages import Drawn, draw, fresh, languages
from csprop_lab.study.protocols import find_task

Found = dict[str, Any]
"""The `result` and the `seconds` of a method."""

METHODS: dict[str, dict[str, Any]] = {
    "csprop": {},
    "RPNI": {"most_seconds": 20.0},
    "EDSM": {"most_seconds": 20.0},
    "LSTM": {"width": 64, "depth": 1, "lr": 3e-3, "batch_size": 64, "least_seconds": 5.0},
}
"""The methods, and the options of each."""
LAYER = "layer"
"""The method of a job whose options name a layer, which is trained in a `Frame`."""


def run_methods(jobs: Sequence[FileJob]) -> list[Found]:
    """Return the results of the methods on the same rows.

    The LSTM is trained for as long as csprop takes, which is measured first.
    """
    job = jobs[0]
    if job.language in bliss.LANGUAGES:
        return [_strings(each) for each in jobs]
    language = languages()[job.language]
    rows = draw(language, job.rows, job.wrong, job.seed)
    task = as_task(job.language, language, *rows.named(language))
    found: dict[str, Found] = {}
    asked = {each.method: each.options for each in jobs}
    if "csprop" in asked or "LSTM" in asked:
        found["csprop"] = _csprop(job, task, rows)
    for name in asked.keys() & {"RPNI", "EDSM"}:
        found[name] = _aalpy(job, rows, name, asked[name]["most_seconds"])
    if "LSTM" in asked:
        found["LSTM"] = _lstm(job, task, found["csprop"]["seconds"], asked["LSTM"])
    return [_layer(each, task) if each.method == LAYER else found[each.method] for each in jobs]


def as_task(
    name: str, known: Automaton | Task, tokens: Sequence[Any], labels: Sequence[Any]
) -> RowsTask:
    """The rows as a user's own data, in the words of the language or the task."""
    sequences = [[known.vocab[token] for token in each] for each in tokens]
    given = list(range(1, len(labels) + 1)), sequences, list(labels)
    return RowsTask(name, pack(name, lambda: [given], known.words, known.vocab, known.classes))


def _csprop(job: FileJob, task: RowsTask, rows: Drawn) -> Found:
    out, seconds = _timed(lambda: learn(task, seed=job.seed, progress=False))
    result = _judged(job, out.machine)
    # A machine that csprop itself does not call clear is not handed out.
    result["right"] = result["right"] and out.verdict.clear
    result["clear"] = out.verdict.clear
    return {"result": result | _suspects(out, rows), "seconds": seconds}


SAMPLING = Sampling(tokens=1 << 20, fewest=4, most=256)
"""The sequences at a length; fewer than in `csprop eval`, because there are many runs."""


def merge(job: Job) -> Found:
    """Return what `csprop learn` makes of the sequences that a layer would be trained on.

    A machine that csprop itself does not call clear has no proof.
    """
    task = find_task(job.task)
    told: Any = {"name": job.task}
    model = CSPConfig(**sizes_of(task))
    config = RunConfig(task=told, preset="study", seed=job.seed, model=model, recipe=job.recipe)
    rows, held_out = training_data(task, config)
    cut = [slice(at, at + n) for at, n in zip(rows.begins, rows.lengths, strict=True)]
    tokens = [rows.flat_tokens[each].tolist() for each in cut]
    said = [[task.classes[i] for i in rows.flat_labels[each] if i != UNLABELLED] for each in cut]
    file = as_task(job.task, task, tokens, said if task.total else [last for (last,) in said])
    out, seconds = _timed(lambda: learn(file, seed=job.seed, progress=False))

    def right(rows: Examples) -> float:
        ends = zip(rows.begins, rows.lengths, strict=True)
        said = [out.machine.final(rows.flat_tokens[at : at + n].tolist()) for at, n in ends]
        return float((np.array(said) == rows.last).mean())

    lengths = {}
    for length in job.test_lengths:
        count, lots = SAMPLING.count(length), generator(job.seed, "eval", length)
        lengths[str(length)] = right(task.examples(count, length, lots))
    certificate = certify_machine(out.machine, task)[1] if out.verdict.clear and task.total else None
    return {
        "result": {
            "accuracy": right(held_out),
            "epochs": 0,
            "parameters": len(out.machine) * out.machine.symbols,
        },
        "lengths": lengths,
        "locked": {
            "verdict": certificate.verdict if certificate else "not clear",
            "proven": bool(certificate and certificate.proven),
        },
        "training_seconds": seconds,
        "seconds": seconds,
    }


def _strings(job: FileJob) -> Found:
    """Return csprop's result on strings of `bliss.py`, whose labels are the tokens that may follow."""
    rows = bliss.strings(job.language, job.rows, job.seed)
    out, seconds = _timed(lambda: learn(*zip(*rows, strict=True), seed=job.seed, progress=False))
    machine, right = out.machine, 0
    for tokens, labels in bliss.first_strings(job.language):
        said = machine.run([machine.vocab.index(token) for token in tokens])
        right += [machine.classes[each] for each in said] == labels
    found = {
        "right": out.verdict.clear and bliss.agrees(machine, job.language),
        "clear": out.verdict.clear,
        "states": len(machine),
        "counters": machine.counters if isinstance(machine, CounterMachine) else 0,
        "tested": len(bliss.first_strings(job.language)),
        "tested_right": right,
    }
    return {"result": found, "seconds": seconds}


def _suspects(out: Learned, rows: Drawn) -> dict[str, int]:
    """Return the numbers of wrong labels, of suspects, and of suspects with a wrong label."""
    wrong = set(np.flatnonzero(rows.labels != rows.truth).tolist())
    suspected = {each.line - 1 for each in out.suspects}
    return {"wrong": len(wrong), "suspects": len(suspected), "hits": len(wrong & suspected)}


class _Limit(StringIO):
    """Takes what AALpy prints about every merge, and stops it when its time is over."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.end = time.process_time() + seconds

    def write(self, text: str) -> int:
        if time.process_time() > self.end:
            raise TimeoutError
        return len(text)


def _aalpy(job: FileJob, rows: Drawn, name: str, most_seconds: float) -> Found:
    """RPNI or EDSM on all rows, with the most frequent label of each sequence.

    AALpy cannot use rows that contradict each other. An input that leads nowhere in its machine leaves
    the state as it is, and a state without an answer gives the most frequent label of all.
    """
    from aalpy.learning_algs import run_EDSM, run_RPNI

    run: Callable[..., Any] = {"RPNI": run_RPNI, "EDSM": run_EDSM}[name]
    labels: dict[tuple[int, ...], Counter[int]] = {}
    for tokens, label in zip(rows.tokens, rows.labels.tolist(), strict=True):
        labels.setdefault(tuple(tokens.tolist()), Counter())[label] += 1
    data = [(tokens, counts.most_common(1)[0][0]) for tokens, counts in labels.items()]
    try:
        with warnings.catch_warnings(), redirect_stdout(_Limit(most_seconds)):
            warnings.simplefilter("ignore")  # that some inputs lead nowhere
            model, seconds = _timed(lambda: run(data, automaton_type="moore"))
    except TimeoutError:
        return {"result": {"right": False, "given_up": True}, "seconds": most_seconds}
    majority = int(np.bincount(rows.labels).argmax())
    oracle = Oracle(
        languages()[job.language].symbols,
        model.initial_state,
        lambda state, token: state.transitions.get(token, state),
        lambda state: majority if state.output is None else state.output,
    )
    return {"result": _judged(job, Machine.explore(oracle).minimal()), "seconds": seconds}


def _lstm(job: FileJob, task: RowsTask, seconds: float, options: dict[str, Any]) -> Found:
    """An LSTM that learns from the rows that csprop's candidates learn from, for as long as it took.

    The epoch with the best accuracy on the held-out rows is kept.
    """
    sizes = {"width": options["width"], "depth": options["depth"], **sizes_of(task)}
    config = PeerConfig(kind="LSTM", **sizes)
    recipe = Recipe(supervise="every", lr=options["lr"], batch_size=options["batch_size"])
    limit = max(seconds, options["least_seconds"])
    model: Any = Peer(config, generator(job.seed, "weights"))
    return _trained(job, task, model, recipe, lambda trainer, spent: spent < limit)


def _layer(job: FileJob, task: RowsTask) -> Found:
    """A layer in a `Frame`, which learns from the same rows for a number of epochs."""
    options = job.options
    sizes = {"width": options["width"], "depth": options["depth"], **sizes_of(task)}
    config = FrameConfig(layer=options["layer"], **sizes)
    recipe = layer_recipe(options["lr"], options["batch_size"], options["epochs"])
    model: Any = Frame(config, generator(job.seed, "weights"))
    found = _trained(job, task, model, recipe, lambda trainer, _: not trainer.finished)
    shares = np.bincount(_tested(job.language, job.seed).truth) / found["result"]["fresh"]
    found["result"]["commonest"] = {"share": float(shares.max())}
    return found


def layer_recipe(lr: float, batch_size: int, epochs: int, **more: Any) -> Recipe:
    """Return the recipe of a layer in a `Frame`: every label counts, short sequences come first."""
    alike = {"supervise": "every", "split": "disjoint", "schedule": "cosine"}
    alike |= {"lr": lr, "batch_size": batch_size, "epochs": epochs, "short_first": epochs // 2}
    return Recipe(**alike, **more)


def _trained(
    job: FileJob, task: RowsTask, model: Any, recipe: Recipe, go_on: Callable[[Trainer, float], bool]
) -> Found:
    """A network that was trained for as long as `go_on` says, given it and its seconds so far."""
    started = time.process_time()
    parts = training_data(task, configure(task, "router", job.seed))
    trainer = Trainer(model, *parts, recipe, job.seed)
    while go_on(trainer, time.process_time() - started):
        try:
            trainer.run_epoch()
        except Diverged:
            break
    took = round(time.process_time() - started, 3)
    if trainer.best:
        model.load_state_dict(trainer.best_weights)
    tested = _tested(job.language, job.seed)
    scores = last_logits(model.eval(), [tokens.tolist() for tokens in tested.tokens])
    answers = [int(each.argmax()) for each in scores]
    result = _on_fresh(answers, tested) | {"epochs": trainer.epoch}
    if job.method == LAYER:
        result |= {"accuracy": trainer.best.get("accuracy", 0.0)}
    return {"result": result, "seconds": took}


def _judged(job: FileJob, machine: Machine | CounterMachine) -> dict[str, Any]:
    """Compare a machine with the language's own, by walking both and on the fresh rows.

    One that counts is not right: the languages are regular.
    """
    tested, language = _tested(job.language, job.seed), languages()[job.language]
    return {
        "right": isinstance(machine, Machine) and machine.difference(language) is None,
        "states": len(machine),
        **_on_fresh([machine.final(tokens) for tokens in tested.tokens], tested),
    }


def _on_fresh(answers: Sequence[int], tested: Drawn) -> dict[str, int]:
    return {"fresh": len(answers), "fresh_right": int((np.array(answers) == tested.truth).sum())}


@cache
def _tested(language: str, seed: int) -> Drawn:
    return fresh(languages()[language], seed)


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    started = time.process_time()
    return work(), round(time.process_time() - started, 3)
