"""Run directories that were tampered with by somebody who also mends every digest.

A `Forger` takes a genuine run apart into a `Draft`, changes that in some of the ways in `KINDS`, and
writes it again. The hardest are complete: everything follows from the forged weights and agrees.
"""

import copy
import hashlib
import itertools
import json
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load as unpacked
from safetensors.torch import save as packed
from torch import Tensor

import csprop
from csprop.automata.machine import Machine
from csprop.automata.walk import every_input
from csprop.nn.config import CSPConfig
from csprop.nn.model import CSP
from csprop.proof import prove, statements
from csprop.proof.certificate import Certificate
from csprop.proof.lock import covered_moves, measure
from csprop.proof.locked import Locked
from csprop.runs.machines import from_machine
from csprop.tasks import from_description
from csprop.tasks.base import Task
from csprop.training import checkpoint
from csprop.training.checkpoint import RunFolder
from csprop.training.config import RunConfig, environment, to_json
from csprop.training.presets import Recipe
from csprop.training.scores import Result
from tests.helpers import machines, zoo

PARITY = machines.Counter(2, ((False, 0), (False, 1)), (0, 1), 2)
COUNTERS = {
    "parity": PARITY,
    "mod3": machines.Counter(3, ((False, 0), (False, 1)), (1, 0, 0), 2),
    "mod3-residue": machines.Counter(3, ((False, 0), (False, 1)), (0, 1, 2), 3),
    "flip-flop": machines.Counter(2, ((True, 0), (True, 1), (False, 0)), (0, 1), 2),
    "mod3-reset": machines.Counter(3, ((False, 0), (False, 1), (True, 0)), (0, 1, 2), 3),
    "cycle-nav": machines.Counter(5, ((False, 4), (False, 0), (False, 1)), (0, 1, 2, 3, 4), 5),
}
"""Tasks whose model is compiled, so that it need not be trained."""
OTHERS = ("mod2", "mod2-residue", "mod2-reset", "mod4", "even-pairs", "parenthesis", "group-S3")
ROWS = "0,even\n1,odd\n01,odd\n11,even\n0110,even\n10110,odd\n"
STRINGS = ["".join(each) for size in range(1, 6) for each in itertools.product("01", repeat=size)]
WRONG = (3, 17, 40, 58)
"""Rows of the second file whose labels are wrong; the first row is 1."""
FILE, NOISY, LENGTH, MACHINE = "own.csv", "noisy.csv", "one length", "a machine"
DOOR = machines.automaton(
    ("open", "close", "lock"), ("fine", "alarm"), True, 0,
    ((1, 0, 2), (1, 0, 3), (3, 2, 0), (3, 3, 3)), (0, 0, 0, 1),
)  # fmt: skip
UNUSED = (checkpoint.LAST, checkpoint.DIAGNOSIS, checkpoint.SUSPECTS)
FILES = [*(name for name in checkpoint.FILES if name not in UNUSED), checkpoint.MANIFEST]


# Genuine runs.


def genuine(folder: Path) -> dict[str, Path]:
    """Certified runs by their names."""
    made = {name: compiled(folder / name, counter, name) for name, counter in COUNTERS.items()}
    made["parity, other weights"] = compiled(folder / "other", PARITY, "parity", seed=1)
    (folder / FILE).write_text(ROWS)
    made[FILE] = compiled(folder / "file", PARITY, folder / FILE)
    odd = [(each.count("1") + (row in WRONG)) % 2 for row, each in enumerate(STRINGS, start=1)]
    labels = (f"{each},{('even', 'odd')[said]}\n" for each, said in zip(STRINGS, odd, strict=True))
    (folder / NOISY).write_text("".join(labels))
    made[NOISY] = compiled(folder / "noisy", PARITY, folder / NOISY)
    csprop.compile(DOOR, folder / "machine")
    made[MACHINE] = folder / "machine"
    learned = Machine(transitions=((0, 1), (1, 0)), outputs=(0, 1))
    from_machine(csprop.tasks.from_file(folder / NOISY), learned, folder / "learned")
    made["a machine of rows"] = folder / "learned"
    wrong = machines.Counter(2, ((False, 0), (False, 0)), (0, 1), 2)
    made[LENGTH] = compiled(folder / "length", PARITY, "parity", length=4)
    made["a wrong length"] = compiled(folder / "wrong length", wrong, "parity", length=4)
    made["a counterexample"] = compiled(folder / "counterexample", wrong, "parity")
    made["group-S3"] = zoo.unpack("group-S3", folder)
    return made


def compiled(
    path: Path, counter: machines.Counter, task: str | Path, seed: int = 0, length: int | None = None
) -> Path:
    """A run as if it had been trained."""
    model = machines.compiled(counter, noise=0.001, seed=seed)
    found = csprop.tasks.resolve(task)
    stored(path, model, found, "rotor", seed)
    csprop.load(path).certify(length=length, rounds=0)
    return path


def stored(path: Path, model: CSP, task: Task, preset: str, seed: int = 0) -> Path:
    """A run as if it had been trained."""
    config = RunConfig(
        task=task.describe(), preset=preset, seed=seed, model=model.config,
        recipe=Recipe(length=4, samples=64, epochs=1),
    )  # fmt: skip
    path.mkdir(parents=True)
    folder = RunFolder(path)
    folder.create(to_json(config, task, environment()))
    row = {"epoch": 1, "loss": 0.1, "accuracy": 1.0, "f1": 1.0, "grad_norm": 0.1, "seconds": 0.1}
    folder.write(checkpoint.METRICS, json.dumps(row).encode() + b"\n")
    folder.write(checkpoint.WEIGHTS, packed(model.state_dict()))
    result = Result(epochs=1, ended="the last epoch", accuracy=1.0, f1=1.0, parameters=1)
    folder.write_json(checkpoint.RESULT, result.to_json())
    return path


# A run taken apart, and put together again.


@dataclass
class Draft:
    """What a forger has on the table."""

    config: Any
    certificate: Any
    locked: dict[str, Tensor]
    model: dict[str, Tensor]
    result: Any
    metrics: Any
    data: str | None = None
    raw: dict[str, bytes] = field(default_factory=dict)
    """Files as bytes, in place of what is made of the rest."""
    others: Sequence[Path] = ()
    """Other runs."""

    @classmethod
    def of(cls, path: Path, others: Sequence[Path] = ()) -> "Draft":
        def read(name: str) -> bytes:
            return (path / name).read_bytes() if (path / name).exists() else b""

        config = json.loads(read(checkpoint.CONFIG))
        return cls(
            config=config,
            certificate=json.loads(read(checkpoint.CERTIFICATE)),
            locked=unpacked(read(checkpoint.LOCKED)) if read(checkpoint.LOCKED) else {},
            model=unpacked(read(checkpoint.WEIGHTS)),
            result=json.loads(read(checkpoint.RESULT)),
            metrics=[json.loads(line) for line in read(checkpoint.METRICS).splitlines()],
            data=(path / config["task"]["data"]).read_text() if "data" in config["task"] else None,
            others=others,
        )

    @property
    def task(self) -> Task:
        return from_description(self.config["task"], Path())

    def write(self, path: Path) -> None:
        """A run directory with digests that fit."""
        (path / "last").mkdir(parents=True)
        self._place_data(path)
        files = {
            checkpoint.CONFIG: _json(self.config),
            checkpoint.METRICS: b"".join(json.dumps(row).encode() + b"\n" for row in self.metrics),
            checkpoint.WEIGHTS: packed(_whole(self.model)),
            checkpoint.RESULT: _json(self.result),
        }
        if self.locked:
            files[checkpoint.LOCKED] = packed(_whole(self.locked))
        files |= self.raw
        weights = self.certificate.get("weights") if isinstance(self.certificate, dict) else None
        if isinstance(weights, dict) and str(weights.get("file")) in files:
            weights["sha256"] = hashlib.sha256(files[weights["file"]]).hexdigest()
        files.setdefault(checkpoint.CERTIFICATE, _json(self.certificate))
        digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
        files.setdefault(checkpoint.MANIFEST, _json(digests))
        for name, content in files.items():
            (path / name).write_bytes(content)

    def _place_data(self, path: Path) -> None:
        """The rows beside the run, with their place and digest in both documents."""
        if self.data is None:
            return
        place = path.parent / f"{path.name}.csv"
        place.write_text(self.data)
        digest = hashlib.sha256(self.data.encode()).hexdigest()
        stated = {"name": place.stem, "data": str(place), "sha256": digest}
        documents = (self.config, self.certificate)
        tasks = [each["task"] for each in documents if isinstance(each, dict) and "task" in each]
        for task in [each for each in tasks if isinstance(each, dict)]:
            if not task.pop("forged", False) and "data" in task:
                task.update(stated)
        document = self.certificate
        if isinstance(document, dict) and isinstance(document.get("statement"), str):
            for name in (FILE, NOISY):
                document["statement"] = document["statement"].replace(name, place.name)

    def complete(self) -> None:
        """Let the certificate say what follows from the weights, be the machine right or not."""
        task = self.task
        try:
            locked = relocked(self.locked, self.config["model"])
            measured = measure(locked, covered_moves(locked, every_input(locked.symbols)))
        except Exception:  # weights that make no machine: the certificate stays as it was
            return
        search = self.certificate["search"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(prove, "compare_with_task", walk_beside)
            fresh = prove.prove(locked, measured, task, None, search["rounds"], search["radius"])
        assert isinstance(fresh, Certificate)
        self.certificate = {
            **json.loads(json.dumps(fresh.to_json())),
            "model": copy.deepcopy(self.config["model"]),
            "weights": {"file": checkpoint.LOCKED, "sha256": ""},
        }


def relocked(tensors: dict[str, Tensor], options: dict[str, Any]) -> Locked:
    """A locked model from its tensors, whatever a certificate says."""
    config = CSPConfig.from_json(options)
    network, prefix = CSP(config), "network."
    network.load_state_dict(
        {name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)}
    )
    codes = [tensors[f"codes_{layer}"] for layer in range(config.depth)]
    shape = (config.order, config.width)
    assert all(each.shape[1:] == shape and each.dtype == torch.float32 for each in codes)
    assert tensors["kept"].shape == (config.depth, config.width)
    return Locked(network.eval().requires_grad_(False), codes, tensors["kept"], config.vocab_size)


def walk_beside(machine: Machine, task: Task, depth: int | None = None) -> list[tuple[int, Any]]:
    """The pairs that a walk meets which does not mind wrong answers."""
    pairs = [(0, task.start())]
    for state, where in pairs:
        for token in range(len(task.vocab)):
            there = (machine.transitions[state][token], task.step(where, token))
            if there not in pairs and len(pairs) < 500:
                pairs.append(there)
    return pairs


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=2).encode() + b"\n"


def _whole(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.contiguous().clone() for name, value in tensors.items()}


# Ways to tamper.

Dice = random.Random
Kind = Callable[[Draft, Dice], None]
Change = Callable[[dict[str, Tensor], Dice], None]
Way = tuple[Any, ...]
"""Keys that lead to something in a document."""
KINDS: dict[str, Kind] = {}
DEEP = json.loads("[" * 900 + "]" * 900)
JUNK: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 7, 1.0, 2.5, 10**30, 10**400, -(10**400), 1e308, float("nan"),
    float("inf"), "", "x", "2", "proven for all lengths", "\ud800", "a\nb", "\0", [], {}, [[]], [0],
    [None], ["x"], {"x": 1}, DEEP,
)  # fmt: skip


def kind(function: Kind) -> Kind:
    KINDS[function.__name__.strip("_").replace("_", " ")] = function
    return function


def leaves(value: Any, way: Way = ()) -> list[Way]:
    """The ways to everything in a document."""
    found = [way] if way else []
    if isinstance(value, dict | list):
        inside = value.items() if isinstance(value, dict) else enumerate(value)
        found += [each for key, below in inside for each in leaves(below, (*way, key))]
    return found


def at(value: Any, way: Way) -> Any:
    for key in way:
        value = value[key]
    return value


def put(value: Any, way: Way, new: Any) -> None:
    at(value, way[:-1])[way[-1]] = copy.deepcopy(new)


def _spoil(part: str, cuts: bool) -> Kind:
    """Somewhere in a document something is something else, or missing."""

    def change(draft: Draft, dice: Dice) -> None:
        document = getattr(draft, part)
        ways = [way for way in leaves(document) if len(way) <= dice.choice((1, 2, 9))]
        way = dice.choice(ways)
        if cuts:
            del at(document, way[:-1])[way[-1]]
        else:
            put(document, way, dice.choice(JUNK))
        task = draft.config.get("task") if part == "config" else None
        if isinstance(task, dict) and "data" in task:
            task["forged"] = True  # or the place of the rows would be mended

    return change


for part in ("certificate", "config", "result", "metrics"):
    KINDS[f"fuzzed {part}"], KINDS[f"cut {part}"] = _spoil(part, False), _spoil(part, True)

NUMBERS = (10**400, -(10**400), float("nan"), 1e9, 0, -1.0, True, "1", None, [], 0.7)
VALUES: dict[str, dict[Way, Sequence[Any]]] = {
    "other numbers": {
        **{("layers", 0, name): NUMBERS for name in ("gap", "snap", "size", "codes", "gate")},
        **{("search", name): NUMBERS for name in ("rounds", "radius", "channels")},
        ("search", "channels", 0): (10**9, "all of them, proven", 1.5),
        **{(name,): NUMBERS for name in ("margin", "minimal_states", "depth", "doubt",
                                         "gap_over_snap", "layers", "format")},
    },
    "other names of the automaton": {
        ("automaton", "vocab"): (["x"], [], ["1", "0"], ["0", "1", "z"]),
        ("automaton", "classes"): (["x"], [], ["odd", "even"], ["even", "odd", "z"]),
        **{("automaton", name): JUNK for name in ("words", "start", "format")},
    },
    "more is said": {  # fields that no certificate has, or trust in something else
        (name,): (5, "", ["nothing at all"], "proven for all lengths", None)
        for name in ("unchecked", "length", "note", "trusted", "counterexample", "inputs")
    },
    "other words": {
        ("verdict",): (statements.ALL_LENGTHS, statements.EVERY_ROW, statements.UP_TO_DEPTH.format(99),
                       statements.ONE_LENGTH.format(9), 1, None),
        ("statement",): ("It is right, always.", "For every input it is right.", None, 3),
        ("proven",): (True, 1, "true", False, None),
    },
}  # fmt: skip
"""Values in place of others in a certificate."""


def _replace(values: dict[Way, Sequence[Any]]) -> Kind:
    def change(draft: Draft, dice: Dice) -> None:
        for way in dice.sample(list(values), dice.choice((1, 1, 2))):
            at(draft.certificate, way[:-1])  # which must be there
            put(draft.certificate, way, dice.choice(values[way]))

    return change


KINDS |= {name: _replace(values) for name, values in VALUES.items()}
KINDS["no certificate"] = lambda draft, dice: put(vars(draft), ("certificate",), dice.choice(JUNK))


@kind
def another_transition(draft: Draft, dice: Dice) -> None:
    for part in dice.choice((["machine"], ["automaton"], ["machine", "automaton"])):
        rows = draft.certificate[part]["transitions"]
        row = dice.choice(rows)
        there = dice.choice((dice.randrange(len(rows)), -1, len(rows), True, 0.0))
        row[dice.randrange(len(row))] = there


@kind
def answers_exchanged(draft: Draft, dice: Dice) -> None:
    """Everywhere in the certificate, so that its tables agree with each other."""
    first, second = dice.sample(range(len(draft.task.classes)), 2)
    turned = {first: second, second: first}
    for said in (draft.certificate["machine"]["outputs"], draft.certificate["automaton"]["answers"]):
        said[:] = [turned.get(each, each) for each in said]


@kind
def boast_of_one_length(draft: Draft, dice: Dice) -> None:
    """From a machine's certificate, or another one, to one of a length."""
    document = draft.certificate
    for name in ("machine", "automaton", "layers", "pairs", "task_states", "search", "counterexample"):
        document.pop(name, None)
    length: Any = dice.choice((4, 5, 1, 6, True, 4.0, "4", 0, -1, 11, 10**30, float("inf"), None, [4]))
    count = 2 ** int(length) if length in (1, 4, 5, 6) else 16
    document |= {
        "length": length, "inputs": count, "wrong": 0, "proven": True,
        "verdict": f"right on every input of length {length}",
        "statement": f"All {count} inputs of length {length} were tried, and the model as trained "
        "answered all as the task 'parity' does (is the number of 1s odd?). Nothing is said of other "
        "lengths.",
        "weights": {"file": checkpoint.WEIGHTS, "sha256": ""},
    }  # fmt: skip


def _in_some(draft: Draft, dice: Dice, change: Callable[[Any], None]) -> None:
    """Change the configuration, the certificate or both; with everything else to fit, or not."""
    where = dice.choice(("config", "certificate", "both", "both", "all", "all"))
    for document in (draft.config, draft.certificate):
        if where in ("both", "all") or document is getattr(draft, where):
            change(document)
    if where == "all" and draft.locked:
        draft.complete()


@kind
def task_renamed(draft: Draft, dice: Dice) -> None:
    name = dice.choice((*COUNTERS, *OTHERS))
    old, new = draft.certificate["task"].get("name", ""), csprop.tasks.get(name)

    def change(document: Any) -> None:
        document["task"] = {"name": name}
        if document is draft.config:
            draft.data = None
            return
        document["statement"] = document["statement"].replace(repr(old), repr(name))
        if "automaton" in document:
            names = {"vocab": list(new.vocab), "classes": list(new.classes), "words": new.words}
            document["automaton"].update(names)

    _in_some(draft, dice, change)


@kind
def another_machine(draft: Draft, dice: Dice) -> None:
    """The machine of the task is another one, or has the name of a built-in task."""
    task = copy.deepcopy(draft.config["task"])
    machine, change = task["automaton"], dice.randrange(6)
    if change < 2:
        row = dice.choice(machine["transitions"])
        row[dice.randrange(len(row))] = dice.randrange(len(machine["transitions"]))
    elif change == 2:
        machine["answers"][dice.randrange(len(machine["answers"]))] = dice.choice((0, 1, None))
    elif change == 3:
        machine["start"] = dice.randrange(len(machine["answers"]))
    elif change == 4:
        machine[dice.choice(("vocab", "classes"))].reverse()
    else:
        task["name"] = dice.choice((*COUNTERS, *OTHERS))
    _in_some(draft, dice, lambda document: put(document, ("task",), task))


@kind
def task_that_is_none(draft: Draft, dice: Dice) -> None:
    junk = dice.choice(JUNK)
    task = dice.choice(
        (junk, {"name": junk}, {"name": "parity", "data": junk}, {"data": "x.csv"},
         {"name": "machine", "automaton": junk}, {"name": junk, "automaton": DOOR.to_json()})
    )  # fmt: skip
    _in_some(draft, dice, lambda document: put(document, ("task",), task))


@kind
def model_options(draft: Draft, dice: Dice) -> None:
    name, value = dice.choice(
        (("width", 65536), ("width", 9), ("depth", 2), ("depth", 1024), ("order", 3), ("skip", 1),
         ("skip", False), ("recall", True), ("rotate", "input"), ("kind", "paper"), ("kind", "router"),
         ("kind", "csprop.cells.options:Rotor"), ("decoder", "cos_sin"), ("num_classes", 7),
         ("vocab_size", 7), ("vocab_size", 10**6), ("width", True), ("depth", 1.0), ("cells", []),
         ("coupling_rank", 1))
    )  # fmt: skip
    own = name in ("order", "skip", "recall", "rotate", "kind", "coupling_rank")
    way = ("model", "cells", 0, name) if own else ("model", name)
    _in_some(draft, dice, lambda document: put(document, way, value))


def weights(change: Change) -> Change:
    """A kind of other weights of the locked model, perhaps of the trained one; with words to fit, or
    not."""

    def changed(draft: Draft, dice: Dice) -> None:
        change(draft.locked, dice)
        if dice.random() < 0.3:
            prefix = "network."
            inside = {n: each for n, each in draft.locked.items() if n.startswith(prefix)}
            draft.model = {name.removeprefix(prefix): each.clone() for name, each in inside.items()}
        if dice.random() < 0.7:
            draft.complete()

    KINDS[change.__name__.replace("_", " ")] = changed
    return change


DECODER = ("network.decoder.linear.weight", "network.decoder.linear.bias")


@weights
def rows_exchanged(tensors: dict[str, Tensor], dice: Dice) -> None:
    """Of the decoder, the embedding or the codes: the last is the same machine with other numbers."""
    names = dice.choice((DECODER, ("network.embedding",), ("codes_0",)))
    order = list(range(len(tensors[names[0]])))
    while len(order) > 1 and order == sorted(order):
        dice.shuffle(order)
    for name in names:
        tensors[name] = tensors[name][order]


@weights
def codes_changed(tensors: dict[str, Tensor], dice: Dice) -> None:
    codes, how = tensors["codes_0"], dice.randrange(8)
    first = dice.randrange(len(codes))
    tensors["codes_0"] = (
        torch.cat([codes, codes[first:first + 1]]), codes[:0], codes[:1], codes * 1e30, -codes,
        codes + 0.3, codes[:, :, :1], codes[:, :1],
    )[how]  # fmt: skip


@weights
def numbers_changed(tensors: dict[str, Tensor], dice: Dice) -> None:
    """A tensor turned, scaled or moved, or a number that is not finite."""
    name = dice.choice([name for name in tensors if tensors[name].numel() and name != "kept"])
    factor = dice.choice((-1.0, 0.0, 2.0, 1 / 3, 1e-7, 1e6, 1e30))
    value = tensors[name] * factor + dice.choice((0.0, 0.0, 1e-4, 0.5, 2.0))
    if dice.random() < 0.4:
        value = tensors[name].clone()
        value.view(-1)[dice.randrange(value.numel())] = dice.choice((float("nan"), float("inf")))
    tensors[name] = value


@weights
def nearly_a_tie(tensors: dict[str, Tensor], dice: Dice) -> None:
    """The right machine, by the last digits of its scores."""
    for name in DECODER:
        tensors[name] = tensors[name] * dice.choice((1e-4, 1e-6, 1e-9))


@weights
def channels_dropped(tensors: dict[str, Tensor], dice: Dice) -> None:
    kept, how = tensors["kept"].clone(), dice.randrange(6)
    if how < 2:
        kept[0, dice.randrange(kept.shape[1])] ^= True
    tensors["kept"] = (kept, kept, ~kept, kept[:, :1], kept.float(), kept[:0])[how]


TYPES = (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool,
         torch.float8_e4m3fn, torch.complex64)  # fmt: skip


@kind
def another_type_or_shape(draft: Draft, dice: Dice) -> None:
    """Of one tensor or, the type, of all of them; one may be missing, or there is one more."""
    tensors = dice.choice((draft.locked, draft.locked, draft.model))
    name = dice.choice(list(tensors))
    value, dtype = tensors[name], dice.choice(TYPES)
    shapes = (value[None], value[..., :1], torch.cat([value, value]), value.reshape(-1))
    more = dice.choice(("codes_1", "places", "following", "network.x", "x"))
    change = dice.choice(
        ({name: value.to(dtype)}, {each: tensors[each].to(dtype) for each in tensors},
         {name: dice.choice(shapes)}, {more: value}, {})
    )  # fmt: skip
    tensors |= change
    if not change:
        del tensors[name]
    if dice.random() < 0.3:
        draft.complete()


@kind
def certificate_of_another_run(draft: Draft, dice: Dice) -> None:
    other = Draft.of(dice.choice(draft.others), draft.others)
    named = copy.deepcopy(draft.certificate.get("task"))
    parts = dice.choice((["certificate"], ["locked"], ["certificate", "locked"], ["model"], ["config"]))
    for part in parts:
        setattr(draft, part, getattr(other, part))
    if other.data is not None and draft.data is None and isinstance(draft.config["task"], dict):
        draft.config["task"].pop("forged", None)
    if dice.random() < 0.7:
        draft.certificate["task"] = named
    if dice.random() < 0.3 and draft.locked:
        draft.complete()


@kind
def other_rows(draft: Draft, dice: Dice) -> None:
    """A file with other rows, and with the digest that fits."""
    assert draft.data is not None
    lines, turned = draft.data.splitlines(), {"even": "odd", "odd": "even"}
    place, change = dice.randrange(len(lines)), dice.randrange(5)
    if change < 2:
        chosen = [place] if change else range(len(lines))
        for each in chosen:
            sequence, label = lines[each].split(",")
            lines[each] = f"{sequence},{turned[label]}"
    elif change == 2:
        lines = dice.choice((lines[:2], []))
    else:  # the second is true: the machine agrees, and the number of rows is another
        lines.append(
            dice.choice(("111,even", "111,odd", "2,odd", "01,neither", "01", ",odd", "0,odd,1",
                         "\ud7ff,odd"))
        )  # fmt: skip
    draft.data = "\n".join(lines) + "\n"


@kind
def other_names_of_a_file(draft: Draft, dice: Dice) -> None:
    tasks = [draft.config["task"], draft.certificate["task"]]
    values: dict[str, tuple[Any, ...]] = {
        "vocab": (["1", "0"], ["0", "0"], ["0", "x"], "01", ["a\nb", "1"], [["0"], "1"], ["", "1"]),
        "classes": (["odd", "even"], ["even", "even"], ["even", "x"], ["no", "yes"], [True, False]),
        "words": (True, 0, "no"),
        "data": ("/nowhere/own.csv", "own.csv", "/", "a\0b.csv", "\ud800.csv", "/dev/zero",
                 "a\nproven for all lengths\nb.csv", ""),
        "sha256": ("0" * 64, "", 0),
        "name": ("parity", "", None),
    }  # fmt: skip
    name = dice.choice(list(values))
    value = dice.choice(values[name])
    for task in tasks if dice.random() < 0.8 else tasks[:1]:
        task[name] = value
        task["forged"] = True
    if name in ("vocab", "classes") and all(isinstance(each, str) for each in value):
        draft.certificate["automaton"][name] = list(value)


@kind
def other_bytes(draft: Draft, dice: Dice) -> None:
    """A file of something else, with its own digest."""
    draft.raw[dice.choice(FILES)] = dice.choice(
        (b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"format": 2}', b"1e999",
         b"9" * 5000, b'{"a": "\\ud800"}', b"\0" * 100, b"\xff" * 8 + b"x" * 100, b"\x08" + b"\0" * 7,
         b'{"a":' * 500 + b"1" + b"}" * 500)
    )  # fmt: skip


class Forger:
    """Makes forgeries of genuine runs, each by its number: the same seed makes the same ones."""

    def __init__(self, runs: dict[str, Path]) -> None:
        self.runs = runs

    def forge(self, number: int, path: Path) -> str:
        """Write a forged run, and say what it is."""
        dice = random.Random(f"forgery {number}")
        torch.manual_seed(number)
        for _ in range(100):
            source = dice.choice(list(self.runs))
            first = list(KINDS)[number % len(KINDS)]  # each kind in its turn
            kinds = [first, *dice.sample(list(KINDS), dice.choice((0, 0, 0, 1, 2)))]
            draft = Draft.of(self.runs[source], list(self.runs.values()))
            try:
                for name in kinds:
                    KINDS[name](draft, dice)
                draft.write(path)
            except (LookupError, TypeError, AttributeError, AssertionError, ValueError, RuntimeError,
                    OverflowError):  # there is nothing of the kind to be changed here  # fmt: skip
                shutil.rmtree(path, ignore_errors=True)
                continue
            return f"{number}: {source}: {', '.join(kinds)}"
        raise AssertionError(f"nothing could be forged for {number}")
