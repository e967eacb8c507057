"""A second pair of eyes: checks a certificate without any of the code that made it.

Nothing here is shared with the prover, the locked model or the network: a step is written out again
in NumPy and float64, from the weights in locked.safetensors. What a certificate claims is an invariant,
a set of pairs (state of the machine, state of the task). It is walked once, and must hold:

    the first states are a pair;
    from each pair, every token leads to a pair, and the machine answers there as the task does;
    and every one of these steps is what the weights compute, with nothing near a tie.

The certificate's own words are not read, but for the verdict: what was proven is said anew.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from csprop.errors import InputError
from csprop.tasks.base import Task

Array = np.ndarray


class Rejected(Exception):
    """What is wrong with a certificate."""


def check(folder: Path, config: dict[str, Any], task: Task) -> str:
    """Verify certificate.json in a run directory; what it proves, or Rejected."""
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused where it matters
            return _checked(folder, config, task)
    except InputError:  # of the data file, not of the certificate
        raise
    except _MALFORMED as error:
        reason = " ".join(str(error).split())
        raise Rejected(f"it is malformed ({type(error).__name__}: {reason})") from None


def _checked(folder: Path, config: dict[str, Any], task: Task) -> str:
    certificate = json.loads(_content(folder / "certificate.json"))
    _demand(certificate.get("proven") is True, "it claims no proof")
    _demand(certificate["format"] == 2, "it has another format than this csprop writes")
    _demand(certificate["task"] == task.describe(), "it is about another task")
    weights = certificate["weights"]
    if weights["file"] != "locked.safetensors":
        raise Rejected("it covers one length by trial: run `csprop certify` with that length again")
    content = _content(folder / "locked.safetensors")
    _demand(
        hashlib.sha256(content).hexdigest() == weights["sha256"],
        "locked.safetensors is not the file with the SHA-256 that was certified",
    )
    _demand(certificate["model"] == config, "the run's config.json is not that of the model certified")
    sizes = (len(task.vocab), len(task.classes))
    _demand((config["vocab_size"], config["num_classes"]) == sizes, "the model does not fit the task")
    stored = load(content)
    _check_weights(stored, config)
    tensors = {name: value.astype(np.float64) for name, value in stored.items()}
    _check_form(certificate["machine"], len(task.vocab))
    _check_automaton(certificate["automaton"], certificate["machine"], task)
    if task.oracle is None:
        verdict = "agrees with every row"
        moves = _moves_of_rows(certificate["machine"], task)
        said = f"The locked model is a finite machine that agrees with every row of {task.source}."
    else:
        depth = certificate["depth"]
        bound = "" if depth is None else f" of any input that goes no deeper than {depth}"
        verdict = "proven for all lengths" if depth is None else f"proven up to depth {depth}"
        moves = _check_pairs(certificate, task)
        said = (
            f"At every length, the locked model's answer after each token{bound} is that of the task "
            f"{task.name!r} ({task.description})."
        )
    _demand(certificate["verdict"] == verdict, f"its verdict is not {verdict!r}")
    _check_moves(certificate, Network(tensors, config), sorted(moves))
    return said


_MALFORMED = (
    OSError,
    SafetensorError,
    ArithmeticError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    RecursionError,
)


def _demand(condition: bool, complaint: str) -> None:
    if not condition:
        raise Rejected(complaint)


def _content(path: Path) -> bytes:
    _demand(path.is_file() or not path.exists(), f"{path.name} is not a regular file")
    return path.read_bytes()


def _check_weights(stored: dict[str, Array], options: dict[str, Any]) -> None:
    """That the tensors are those of a model with these options, and no others: NumPy would stretch one
    that is too small."""
    for name, value in stored.items():
        kind = np.bool_ if name == "kept" else np.float32
        _demand(value.dtype == kind, "its weights are not in float32")
    shapes = {name: value.shape for name, value in stored.items()}
    codes = [shapes.pop(f"codes_{layer}") for layer in range(options["depth"])]
    state = (options["order"], options["width"])
    fits = all(len(each) == 3 and each[0] > 0 and each[1:] == state for each in codes)
    _demand(fits and shapes == _shapes(options), "its weights are not those of such a model")


def _shapes(options: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Of every tensor but the codes, by its name."""
    order, width, classes = options["order"], options["width"], options["num_classes"]
    whole, gates = order * width, width if options["gate"] == "per_channel" else 1
    turns = width if options["rotation"] == "per_channel" else 1
    block = {"gate.weight": (gates, whole), "gate.bias": (gates,)}
    if options["rotate"] != "none" and options["angle"] == "tanh":
        block["angle.weight"] = (turns, width)
    elif options["rotate"] != "none":
        angles = turns * order * (order - 1) // 2
        block |= {"angle.weight": (angles, whole), "angle.bias": (angles,)}
    block |= {name: (width,) for name in ("skip", "recall") if options[name]}
    block |= {"h0": (order, width)} if options["h0"] == "learned" else {}
    if options["norm"] == "layer":
        block |= {"norm.weight": (whole,), "norm.bias": (whole,)}
    features = width if options["decoder"] in ("complex", "phase") else whole
    decoder = {"linear.weight": (classes, features), "linear.bias": (classes,)}
    if options["decoder"] == "complex":
        decoder = {"linear.weight": (classes, features), "projection": (2, classes), "bias": (classes,)}
    links, rank = options["depth"] - 1, options["coupling_rank"]
    links = 0 if rank == 0 else 1 if options["coupling"] == "shared" else links
    pairs = [(link, name) for link in range(links) for name in "uv"]
    return {
        "kept": (options["depth"], width),
        "network.embedding": (options["vocab_size"], order, width),
        **{f"network.couplings.{link}.{name}": (width, rank) for link, name in pairs},
        **{f"network.decoder.{name}": shape for name, shape in decoder.items()},
        **{
            f"network.blocks.{layer}.{name}": shape
            for layer in range(options["depth"]) for name, shape in block.items()
        },
    }  # fmt: skip


def _check_form(machine: dict[str, Any], symbols: int) -> None:
    """That the tables fit together: Python would read a negative number as one from the end."""
    places, following, outputs = (machine[name] for name in ("places", "transitions", "outputs"))
    count = len(places)
    fits = len(following) == len(outputs) == count > 0
    fits = fits and all(len(row) == symbols for row in following)
    fits = fits and all(_is_number(state, count) for row in following for state in row)
    fits = fits and all(_is_number(code) for place in places for code in place)
    entered = {state for row in following for state in row}
    fits = fits and all(_is_number(outputs[state]) for state in entered)
    _demand(fits, "its tables do not fit together")


def _check_automaton(automaton: dict[str, Any], machine: dict[str, Any], task: Task) -> None:
    """That the automaton has the task's names, and answers as the machine does after every input."""
    names = [list(task.vocab), list(task.classes), task.words]
    _demand([automaton[name] for name in ("vocab", "classes", "words")] == names, "its names differ")
    rows, answers = automaton["transitions"], automaton["answers"]
    sound = all(len(row) == len(task.vocab) for row in rows) and len(answers) == len(rows)
    sound = sound and all(_is_number(state, len(rows)) for row in rows for state in row)
    sound = sound and all(each is None or _is_number(each) for each in answers)
    _demand(sound and _is_number(automaton["start"], len(rows)), "its automaton is no table")
    todo = [(0, automaton["start"])]
    seen = set(todo)
    while todo:
        mine, theirs = todo.pop()
        for pair in zip(machine["transitions"][mine], rows[theirs], strict=True):
            _demand(machine["outputs"][pair[0]] == answers[pair[1]], "its automaton answers otherwise")
            if pair not in seen:
                seen.add(pair)
                todo.append(pair)


def _is_number(value: Any, below: float = float("inf")) -> bool:
    return type(value) is int and 0 <= value < below


def _check_pairs(certificate: dict[str, Any], task: Task) -> set[tuple[int, int]]:
    """That the pairs are an invariant; the moves of the machine that they rest on."""
    machine, depth = certificate["machine"], certificate["depth"]
    bounded = depth is None if task.finite else _is_number(depth)
    _demand(bounded, "it does not say up to which depth, or needs not")
    pairs = {(state, name) for state, name in certificate["pairs"]}
    names = certificate["task_states"]
    states: dict[int, Any] = {0: task.start()}
    _demand((0, 0) in pairs and names[0] == repr(task.start()), "it does not begin at the start")
    todo, seen, moves = [(0, 0)], {(0, 0)}, set()
    numbers = {name: number for number, name in enumerate(names)}
    _demand(len(numbers) == len(names), "it has a state of the task twice")
    while todo:
        state, number = todo.pop()
        for token in range(len(task.vocab)):
            after = task.step(states[number], token)
            if depth is not None and task.size(after) > depth:
                continue
            moves.add((state, token))
            there = machine["transitions"][state][token]
            _demand(
                machine["outputs"][there] == task.answer(after),
                f"state {state} answers token {token} wrongly",
            )
            _demand(repr(after) in numbers, "it leaves out a state of the task")
            pair = (there, numbers[repr(after)])
            _demand(pair in pairs, f"the pair {pair} is not in the invariant")
            _demand(states.setdefault(pair[1], after) == after, "two states of the task look alike")
            if pair not in seen:
                seen.add(pair)
                todo.append(pair)
    return moves


def _moves_of_rows(machine: dict[str, Any], task: Task) -> set[tuple[int, int]]:
    """That every row is answered as the file says; all moves of the machine, for all are claimed."""
    data = task.data
    for tokens, labels in zip(data.tokens.tolist(), data.labels.tolist(), strict=True):
        state = 0
        for token, label in zip(tokens, labels, strict=True):
            state = machine["transitions"][state][token]
            if label >= 0:
                said = machine["outputs"][state]
                _demand(said == label, f"a row is answered {said}, not {label}")
    count, size = len(machine["transitions"]), len(task.vocab)
    return {(state, token) for state in range(count) for token in range(size)}


def _check_moves(certificate: dict[str, Any], network: "Network", moves: list[tuple[int, int]]) -> None:
    """That the weights compute every move, and nothing is near a tie."""
    machine, doubt, ratio = certificate["machine"], 1e-3, 5.0
    places = machine["places"]
    gaps = [_gap(codes) for codes in network.codes]
    least = [doubt * max(1.0, np.abs(codes).max()) for codes in network.codes]
    starts = [_nearest(h, codes) for h, codes in zip(network.start, network.codes, strict=True)]
    _demand(
        [number for number, _ in starts] == places[0]
        and all(
            gap >= (ratio - 0.01) * max(distance, low)
            for (_, distance), gap, low in zip(starts, gaps, least, strict=True)
        ),
        "the machine does not begin where the network does",
    )
    for state, token in moves:
        where, near, scores = network.move(places[state], token)
        there = machine["transitions"][state][token]
        _demand(
            where == places[there],
            f"from state {state}, token {token} leads elsewhere",
        )
        for distance, gap, low in zip(near, gaps, least, strict=True):
            _demand(
                gap >= (ratio - 0.01) * max(distance, low),
                f"from state {state}, token {token} leads {distance:.3g} away from a code; others "
                f"are {gap:.3g} apart",
            )
        best, second = np.sort(scores)[::-1][:2]
        _demand(
            bool(np.isfinite(scores).all())
            and int(scores.argmax()) == machine["outputs"][there]
            and best - second >= 0.99 * doubt * max(1.0, np.abs(scores).max()),
            f"in state {state}, token {token}, the scores are in doubt or say something else",
        )


def _nearest(h: Array, codes: Array) -> tuple[int, float]:
    apart = np.sqrt(((h - codes) ** 2).sum(axis=1).max(axis=1))  # (S,)
    _demand(bool(np.isfinite(apart).all()), "a state is not a finite number")
    return int(apart.argmin()), float(apart.min())


def _gap(codes: Array) -> float:
    if len(codes) == 1:
        return float("inf")
    return min(_nearest(code, np.delete(codes, i, axis=0))[1] for i, code in enumerate(codes))


def _linear(weight: Array, x: Array, bias: Array | float = 0.0) -> Array:
    """Computed here in float64, in use in float32: large terms that cancel would not agree."""
    largest = np.max(np.abs(weight) @ np.abs(x) + np.abs(bias))
    _demand(bool(largest * 2.0**-23 < 1e-4), "weights are so large that float32 cannot be relied on")
    return weight @ x + bias


def _sigmoid(x: Array) -> Array:
    return 0.5 * (1 + np.tanh(x / 2))


def _softplus(x: Array) -> Array:
    return np.logaddexp(0, x)


def _unit(h: Array, epsilon: float) -> Array:
    return h / (np.sqrt((h**2).sum(axis=0) + 1e-30) + epsilon)


class Network:
    """One step of the model, as docs/paper.md has the equations; a state is (M, D), no batch."""

    def __init__(self, tensors: dict[str, Array], config: dict[str, Any]) -> None:
        self.tensors, self.options = tensors, config
        self.depth, self.order = config["depth"], config["order"]
        self.kept = tensors["kept"] != 0
        self.codes = [tensors[f"codes_{layer}"] for layer in range(self.depth)]
        self.start = [self._start(layer) for layer in range(self.depth)]

    def _start(self, layer: int) -> Array:
        if self.options["h0"] == "zero":
            return np.zeros((self.order, self.options["width"]))
        h0 = self.tensors[f"network.blocks.{layer}.h0"]
        return _unit(h0, 0.0) if self.options["decay"] in ("reset", "switch") else h0

    def move(self, place: list[int], token: int) -> tuple[list[int], list[float], Array]:
        """From codes, by a token: to which codes, how far from them, and the scores."""
        z = self.tensors["network.embedding"][token]  # (M, D)
        where, near = [], []
        for layer in range(self.depth):
            before = self.codes[layer][place[layer]]
            h = self._recur(layer, z, before)
            h = np.where(self.kept[layer], h, self.start[layer])
            number, distance = _nearest(h, self.codes[layer])
            where.append(number)
            near.append(distance)
            z = self._finish(layer, self.codes[layer][number], z, before)
        return where, near, self._decode(z)

    def _recur(self, layer: int, z: Array, h: Array) -> Array:
        options, own = self.options, self._own(layer)
        delta = _linear(own("gate.weight"), z.ravel(), own("gate.bias"))
        if options["decay"] == "switch":
            used = np.broadcast_to(np.abs(delta), self.kept[layer].shape)[self.kept[layer]]
            _demand(bool((used >= 0.99e-3).all()), f"rounding could turn a gate of layer {layer + 1}")
            alpha, gamma, entering = delta > 0, delta <= 0, _unit(z, 1e-8)
        elif options["decay"] == "reset":
            alpha, gamma, entering = _sigmoid(delta), _sigmoid(-delta), _unit(z, 1e-8)
        else:
            gamma, entering = _softplus(delta), z
            alpha = {"softplus": gamma, "exp": np.exp(-gamma), "unit": np.ones_like(gamma)}[
                options["decay"]
            ]
        turned = self._turn(layer, z)
        u = gamma * (turned(entering) if options["rotate"] == "input" else entering)
        if layer and options["coupling_rank"]:
            link = 0 if options["coupling"] == "shared" else layer - 1
            factors = [self.tensors[f"network.couplings.{link}.{name}"] for name in "vu"]
            u = u + z @ factors[0] @ factors[1].T
        h = alpha * (turned(h) if options["rotate"] == "state" else h) + u
        h = h / np.maximum(np.sqrt(((h / 2.0**60) ** 2).sum(axis=0)), 1)
        return h * _sigmoid(h) if options["activation"] == "step" else h

    def _turn(self, layer: int, z: Array) -> Callable[[Array], Array]:
        """The rotation of this step, as a function of (M, D)."""
        options, own = self.options, self._own(layer)
        if options["rotate"] == "none":
            return lambda h: h
        if options["angle"] == "tanh":
            angles = np.pi * np.tanh(_linear(own("angle.weight"), z[0]))[None]
        else:
            angles = _linear(own("angle.weight"), z.ravel(), own("angle.bias"))
            angles = angles.reshape(self.order * (self.order - 1) // 2, -1)
        skew = np.zeros((angles.shape[1], self.order, self.order))
        rows, columns = np.triu_indices(self.order, 1)
        skew[:, columns, rows], skew[:, rows, columns] = angles.T, -angles.T
        values, vectors = np.linalg.eigh(1j * skew)  # i times a skew matrix is Hermitian
        phases = np.exp(-1j * values)[:, None, :]
        matrices = np.real((vectors * phases) @ vectors.conj().transpose(0, 2, 1))
        matrices = np.broadcast_to(matrices, (options["width"], self.order, self.order))
        return lambda h: np.einsum("dij,jd->id", matrices, h)

    def _finish(self, layer: int, h: Array, z: Array, before: Array) -> Array:
        options, own = self.options, self._own(layer)
        if options["activation"] == "boundary":
            h = h * _sigmoid(h)
        if options["skip"]:
            h = h + _sigmoid(own("skip")) * z
        if options["recall"]:
            h = h + own("recall") * before
        if options["norm"] == "complex":
            return _unit(h, 1e-8)
        h = h / np.maximum(np.sqrt(((h / 2.0**20) ** 2).sum(axis=0)), 1)
        if options["norm"] == "layer":
            flat = h.ravel()
            flat = (flat - flat.mean()) / np.sqrt(flat.var() + 1e-5)
            h = (flat * own("norm.weight") + own("norm.bias")).reshape(h.shape)
        return h

    def _decode(self, h: Array) -> Array:
        own = self._own("decoder")
        if self.options["decoder"] == "complex":
            seen = h @ own("linear.weight").T  # (2, V)
            return (seen * own("projection")).sum(axis=0) + own("bias")
        if self.options["decoder"] == "phase":
            nowhere = (h**2).sum(axis=0) < 1e-30
            features = np.arctan2(h[1], np.where(nowhere, 1.0, h[0]))
        elif self.options["decoder"] == "cos_sin" and self.options["norm"] != "complex":
            features = _unit(h, 0.0).ravel()
        else:
            features = h.ravel()
        return _linear(own("linear.weight"), features, own("linear.bias"))

    def _own(self, part: int | str) -> Callable[[str], Array]:
        prefix = f"network.blocks.{part}" if isinstance(part, int) else f"network.{part}"
        return lambda name: self.tensors[f"{prefix}.{name}"]
