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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zipfile import Path as Packed

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from csprop.errors import InputError
from csprop.proof.check_counting import Known, Table, closed, is_whole, network_step, unit
from csprop.proof.check_network import Weights
from csprop.proof.check_shapes import Rejected, check_weights, demand
from csprop.proof.numpy_step import Array, Network, nearest
from csprop.tasks.base import Task


def check(folder: Path | Packed, config: dict[str, Any], task: Task) -> str:
    """Verify certificate.json in a run directory, or in an archive; what it proves, or Rejected."""
    config = json.loads(json.dumps(config))  # where a tuple is a list, as in the certificate
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused where it matters
            return _checked(folder, config, task)
    except InputError:  # of the data file, not of the certificate
        raise
    except _MALFORMED as error:
        reason = " ".join(str(error).split())
        raise Rejected(f"it is malformed ({type(error).__name__}: {reason})") from None


def _checked(folder: Path | Packed, config: dict[str, Any], task: Task) -> str:
    certificate = json.loads(_content(folder / "certificate.json"))
    demand(certificate.get("proven") is True, "it claims no proof")
    demand(certificate["format"] == 2, "it has another format than this csprop writes")
    demand(certificate["task"] == task.describe(), "it is about another task")
    weights = certificate["weights"]
    if weights["file"] != "locked.safetensors":
        raise Rejected("it covers one length by trial: run `csprop certify` with that length again")
    content = _content(folder / "locked.safetensors")
    demand(
        hashlib.sha256(content).hexdigest() == weights["sha256"],
        "locked.safetensors is not the file with the SHA-256 that was certified",
    )
    demand(certificate["model"] == config, "the run's config.json is not that of the model certified")
    sizes = (len(task.vocab), len(task.classes))
    demand((config["vocab_size"], config["num_classes"]) == sizes, "the model does not fit the task")
    stored = load(content)
    check_weights(stored, config, "counting" in certificate)
    tensors = {name: value.astype(np.float64) for name, value in stored.items()}
    small = all((np.abs(each) <= 2.0**20).all() for each in tensors.values())
    demand(small, "a weight is beyond ±2^20, or not a number")
    if "counting" in certificate:
        return _check_counting(certificate, tensors, config, task)
    _check_form(certificate["machine"], len(task.vocab))
    _check_automaton(certificate["automaton"], certificate["machine"], task)
    if task.oracle is None:
        verdict = _check_rows(
            certificate, task, lambda tokens: _answers(certificate["machine"], tokens)
        )
        moves = _all_moves(certificate["machine"])
        said = f"The locked model is a finite machine that {verdict} of {task.source}."
    else:
        depth = certificate["depth"]
        bound = "" if depth is None else f" of any input that goes no deeper than {depth}"
        verdict = "proven for all lengths" if depth is None else f"proven up to depth {depth}"
        moves = _check_pairs(certificate, task)
        said = (
            f"At every length, the locked model's answer after each token{bound} is that of the task "
            f"{task.name!r} ({task.description})."
        )
    demand(certificate["verdict"] == verdict, f"its verdict is not {verdict!r}")
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


def _content(path: Path | Packed) -> bytes:
    demand(path.is_file() or not path.exists(), f"{path.name} is not a regular file")
    return path.read_bytes()


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
    demand(fits, "its tables do not fit together")


def _check_automaton(automaton: dict[str, Any], machine: dict[str, Any], task: Task) -> None:
    """That the automaton has the task's names, and answers as the machine does after every input."""
    names = [list(task.vocab), list(task.classes), task.words]
    demand([automaton[name] for name in ("vocab", "classes", "words")] == names, "its names differ")
    rows, answers = automaton["transitions"], automaton["answers"]
    sound = all(len(row) == len(task.vocab) for row in rows) and len(answers) == len(rows)
    sound = sound and all(_is_number(state, len(rows)) for row in rows for state in row)
    sound = sound and all(each is None or _is_number(each) for each in answers)
    demand(sound and _is_number(automaton["start"], len(rows)), "its automaton is no table")
    todo = [(0, automaton["start"])]
    seen = set(todo)
    while todo:
        mine, theirs = todo.pop()
        for pair in zip(machine["transitions"][mine], rows[theirs], strict=True):
            demand(machine["outputs"][pair[0]] == answers[pair[1]], "its automaton answers otherwise")
            if pair not in seen:
                seen.add(pair)
                todo.append(pair)


def _is_number(value: Any, below: float = float("inf")) -> bool:
    return type(value) is int and 0 <= value < below


def _check_pairs(certificate: dict[str, Any], task: Task) -> set[tuple[int, int]]:
    """That the pairs are an invariant; the moves of the machine that they rest on."""
    machine, depth = certificate["machine"], certificate["depth"]
    bounded = depth is None if task.finite else _is_number(depth)
    demand(bounded, "it does not say up to which depth, or needs not")
    pairs = {(state, name) for state, name in certificate["pairs"]}
    names = certificate["task_states"]
    states: dict[int, Any] = {0: task.start()}
    demand((0, 0) in pairs and names[0] == repr(task.start()), "it does not begin at the start")
    todo, seen, moves = [(0, 0)], {(0, 0)}, set()
    numbers = {name: number for number, name in enumerate(names)}
    demand(len(numbers) == len(names), "it has a state of the task twice")
    while todo:
        state, number = todo.pop()
        for token in range(len(task.vocab)):
            after = task.step(states[number], token)
            if depth is not None and task.size(after) > depth:
                continue
            moves.add((state, token))
            there = machine["transitions"][state][token]
            demand(
                machine["outputs"][there] == task.answer(after),
                f"state {state} answers token {token} wrongly",
            )
            demand(repr(after) in numbers, "it leaves out a state of the task")
            pair = (there, numbers[repr(after)])
            demand(pair in pairs, f"the pair {pair} is not in the invariant")
            demand(states.setdefault(pair[1], after) == after, "two states of the task look alike")
            if pair not in seen:
                seen.add(pair)
                todo.append(pair)
    return moves


def _check_counting(
    certificate: dict[str, Any], tensors: dict[str, Array], config: dict[str, Any], task: Task
) -> str:
    """The certificate of a model that counts."""
    counting, automaton, tokens = certificate["counting"], certificate["automaton"], len(task.vocab)
    kinds, window = [cell["kind"] for cell in config["cells"]], counting["window"]
    fits = kinds in (["counter", "switch"], ["counter", "router"]) and config["decoder"] == "linear"
    demand(fits, "its model is not one that counts")
    demand(is_whole(window, 1, 2**20), "it has no window")
    names = [list(task.vocab), list(task.classes), task.words]
    demand([automaton[name] for name in ("vocab", "classes", "words")] == names, "its names differ")
    demand(automaton["format"] == "csprop automaton 2", "its automaton has another format")
    increments, answers = automaton["increments"], automaton["answers"]
    views = {len(each) for row in automaton["transitions"] for each in row}
    demand(len(views) == 1, "its automaton is no table")
    rows = [[there for each in row for there in each] for row in automaton["transitions"]]
    small = Table(increments, automaton["window"], automaton["start"], rows, answers, tokens)
    known, weights = (
        Known(certificate["ranges"], tokens),
        Weights(tensors, kinds[1] == "router", window),
    )
    exact = {"network": 2**24 // unit(weights, known), "locked": 2**62}
    stated = [counting["unit"], certificate["exact_up_to"]]
    demand(stated == [unit(weights, known), exact], "its counts are exact elsewhere")
    step = network_step(counting, weights, known, tokens)
    closed(certificate["pairs"], known, tokens, small.start, step, small.stepping(known))
    if task.oracle is None:
        verdict = _check_rows(certificate, task, small.answers_of)
        said = f"The locked model is a machine that counts and {verdict} of {task.source}."
    else:
        verdict, known = "proven for all lengths and depths", Known(certificate["task_ranges"], tokens)
        own = _own_machine(task)
        pairs = certificate["task_pairs"]
        # The pairs begin at state 0 of the one machine, and the start of the other.
        demand(small.start == 0, "its automaton does not begin at 0")
        closed(pairs, known, tokens, own.start, small.stepping(known), own.stepping(known))
        said = (
            "At every length and depth, the locked model's answer after each token is that of the "
            f"task {task.name!r} ({task.description}). Counts are exact up to 2^62."
        )
    demand(certificate["verdict"] == verdict, f"its verdict is not {verdict!r}")
    return said


def _own_machine(task: Task) -> Table:
    """The machine that the task declares; one with finitely many states has no counters."""
    machine, tokens = task.counting, len(task.vocab)
    if machine is None:
        own = task.machine
        return Table([[]] * tokens, 0, own.start, own.transitions, own.outputs, tokens)
    own, increments = machine.control, machine.increments
    return Table(increments, machine.window, own.start, own.transitions, own.outputs, tokens)


def _answers(machine: dict[str, Any], tokens: list[int]) -> Iterator[int]:
    state = 0
    for token in tokens:
        state = machine["transitions"][state][token]
        yield machine["outputs"][state]


def _check_rows(
    certificate: dict[str, Any], task: Task, answers: Callable[[list[int]], Iterator[int | None]]
) -> str:
    """That the rows which disagree are those that the certificate lists; the verdict."""
    count, found, number = len(task.data), [], 0
    for rows in task.data.matrices():
        for tokens, labels in zip(rows.tokens.tolist(), rows.labels.tolist(), strict=True):
            number += 1
            pairs = zip(answers(tokens), labels, strict=True)
            if not all(label < 0 or said == label for said, label in pairs):
                found.append(number)
    stated = [certificate.get(name) for name in ("rows", "disagreeing")]
    if not found:
        demand(stated == [None, None], "it lists rows that disagree, and none does")
        return "agrees with every row"
    numbers = all(map(_is_number, [stated[0], *(stated[1] or [])]))
    demand(numbers and stated == [count, found], f"the rows that disagree are others: {len(found):,}")
    return f"agrees with {count - len(found):,} of {count:,} rows"


def _all_moves(machine: dict[str, Any]) -> set[tuple[int, int]]:
    """Every move, for what a machine computes is claimed beyond the rows of a file."""
    rows = enumerate(machine["transitions"])
    return {(state, token) for state, row in rows for token in range(len(row))}


def _check_moves(certificate: dict[str, Any], network: Network, moves: list[tuple[int, int]]) -> None:
    """That the weights compute every move, and nothing is near a tie."""
    machine, doubt, ratio = certificate["machine"], 1e-3, 5.0
    places = machine["places"]
    gaps = network.gaps
    least = [doubt * max(1.0, np.abs(codes).max()) for codes in network.codes]
    starts = [nearest(h, codes) for h, codes in zip(network.start, network.codes, strict=True)]
    demand(
        [number for number, _ in starts] == places[0]
        and all(
            gap >= (ratio - 0.01) * max(distance, low)
            for (_, distance), gap, low in zip(starts, gaps, least, strict=True)
        ),
        "the machine does not begin where the network does",
    )
    for state, token in moves:
        where, near, scores, _ = network.move(places[state], token)
        there = machine["transitions"][state][token]
        demand(
            where == places[there],
            f"from state {state}, token {token} leads elsewhere",
        )
        for distance, gap, low in zip(near, gaps, least, strict=True):
            demand(
                gap >= (ratio - 0.01) * max(distance, low),
                f"from state {state}, token {token} leads {distance:.3g} away from a code; others "
                f"are {gap:.3g} apart",
            )
        best, second = np.sort(scores)[::-1][:2]
        demand(
            bool(np.isfinite(scores).all())
            and int(scores.argmax()) == machine["outputs"][there]
            and best - second >= 0.99 * doubt * max(1.0, np.abs(scores).max()),
            f"in state {state}, token {token}, the scores are in doubt or say something else",
        )
