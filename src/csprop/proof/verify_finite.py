"""The verifier's part for finite machines. It shares no code with the prover.

A certificate claims a machine, its smallest automaton, and pairs of a state of the machine and a state
of the task. The machine must be what the weights compute, with nothing near a tie; the automaton must
answer as the machine does; and the pairs must be an invariant.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from csprop.automata.automaton import Automaton
from csprop.proof.certificate import FiniteProof
from csprop.proof.verify_network import (
    DOUBT,
    RATIO,
    TIE,
    Array,
    Move,
    Network,
    close,
    code_gap,
    demand,
    nearest,
)
from csprop.tasks.base import Task

BLUR, DRAWS = 1e-5, 4  # random changes of weights and codes under which the machine must stay the same
Leaving = tuple[tuple[int, ...], int]  # the codes of a state, and a token


def verify_finite(
    proof: FiniteProof,
    automaton: Automaton,
    tensors: dict[str, Array],
    model: dict[str, Any],
    task: Task,
) -> Array:
    """Verify the machine of a locked model; return the scores after each of its transitions."""
    _check_tables(proof, len(task.vocab))
    _check_automaton(automaton, proof)
    moves = [
        (state, token) for state in range(len(proof.machine.places)) for token in range(len(task.vocab))
    ]
    if task.oracle is None:
        demand(not proof.pairs and not proof.task_states, "it has pairs, and its task has no states")
        demand(proof.depth is None, "it has a depth, and its task has none")
        covered = set(moves)
    else:
        covered = _check_pairs(proof, task)
    network = Network(tensors, model)
    taken, scores = _check_moves(proof, network, moves, covered)
    demand((proof.gap_over_snap, proof.doubt) == (RATIO, DOUBT), "it has other limits")
    demand(0 <= proof.search.rounds < 2**31 and proof.search.radius > 0, "its search is malformed")
    channels = tuple(network.kept.sum(axis=1).tolist())
    demand(proof.search.channels == channels, "it has another number of channels")
    _check_margins(proof, network, list(taken.values()))
    _check_steady(network, taken)
    return scores


def _check_tables(proof: FiniteProof, tokens: int) -> None:
    """Demand tables that fit together: Python would read a negative index as one from the end."""
    machine, states = proof.machine, len(proof.machine.places)
    rows, outputs = machine.transitions, machine.outputs
    entered = {state for row in rows for state in row}
    fits = len(rows) == len(outputs) == states > 0 and all(len(row) == tokens for row in rows)
    fits = fits and min(entered) >= 0 and max(entered) < states
    fits = fits and all(code >= 0 for place in machine.places for code in place)
    fits = fits and all(output is None or output >= 0 for output in outputs)
    fits = fits and all((outputs[state] is not None) == (state in entered) for state in range(states))
    demand(fits, "its tables do not fit together")
    demand(len(_reached(0, rows)) == states, "it has a state that no input reaches")
    distinct = len(set(zip(machine.places, outputs, strict=True))) == states
    demand(distinct, "it has a state twice")


def _reached(start: int, transitions: Sequence[Sequence[int]]) -> set[int]:
    reached, todo = {start}, [start]
    while todo:
        for there in transitions[todo.pop()]:
            if there not in reached:
                reached.add(there)
                todo.append(there)
    return reached


def _check_automaton(automaton: Automaton, proof: FiniteProof) -> None:
    """Demand an automaton that answers as the machine does after every input, and is the smallest."""
    machine, rows, answers = proof.machine, automaton.transitions, automaton.outputs
    todo = [(0, automaton.start)]
    seen = set(todo)
    while todo:
        mine, theirs = todo.pop()
        for pair in zip(machine.transitions[mine], rows[theirs], strict=True):
            demand(machine.outputs[pair[0]] == answers[pair[1]], "its automaton answers otherwise")
            if pair not in seen:
                seen.add(pair)
                todo.append(pair)
    demand(len(_reached(automaton.start, rows)) == len(rows), "its automaton is not the smallest")
    entered = sorted({there for row in rows for there in row})
    block: dict[int, Any] = {state: answers[state] for state in entered}
    count = 0
    while len(set(block.values())) > count:  # Moore's refinement
        count = len(set(block.values()))
        finer = {
            state: (block[state], tuple(block[there] for there in rows[state])) for state in entered
        }
        numbers = {each: number for number, each in enumerate(set(finer.values()))}
        block = {state: numbers[finer[state]] for state in entered}
    # A start that is never entered needs a state of its own only if no other state goes on like it.
    alike = automaton.start not in entered and rows[automaton.start] in {
        rows[state] for state in entered
    }
    demand(count == len(entered) and not alike, "its automaton is not the smallest")


def _check_pairs(proof: FiniteProof, task: Task) -> set[tuple[int, int]]:
    """Demand that the pairs are an invariant; return the moves of the machine that they rest on."""
    machine, depth, names = proof.machine, proof.depth, proof.task_states
    bounded = depth is None if task.finite else depth is not None and depth > 0
    demand(bounded, "it has no depth although its task needs one, or has one although it does not")
    pairs, numbers = set(proof.pairs), {name: number for number, name in enumerate(names)}
    demand(len(numbers) == len(names), "it has a state of the task twice")
    begins = (0, 0) in pairs and names[:1] == (repr(task.start()),)
    demand(begins, "it does not begin at the start")
    states: dict[int, Any] = {0: task.start()}
    todo, seen, moves = [(0, 0)], {(0, 0)}, set[tuple[int, int]]()
    while todo:
        state, number = todo.pop()
        for token in range(len(task.vocab)):
            after = task.step(states[number], token)
            if depth is not None and task.size(after) > depth:
                continue
            moves.add((state, token))
            there = machine.transitions[state][token]
            right = machine.outputs[there] == task.answer(after)
            demand(right, f"state {state} answers token {token} wrongly")
            demand(repr(after) in numbers, "it leaves out a state of the task")
            pair = (there, numbers[repr(after)])
            demand(pair in pairs, f"the pair {pair} is not in the invariant")
            demand(states.setdefault(pair[1], after) == after, "two states of the task look alike")
            if pair not in seen:
                seen.add(pair)
                todo.append(pair)
    exact = len(proof.pairs) == len(seen) and len(names) == len(states)
    demand(exact, "it lists pairs or states that no input reaches")
    return moves


def _check_moves(
    proof: FiniteProof,
    network: Network,
    moves: Sequence[tuple[int, int]],
    covered: set[tuple[int, int]],
) -> tuple[dict[Leaving, Move], Array]:
    """Demand that the weights compute every move, with nothing near a tie where it is covered."""
    machine, known = proof.machine, dict[Leaving, Move]()
    starts = zip(network.start, network.codes, strict=True)
    begins = tuple(nearest(h, codes)[0] for h, codes in starts) == machine.places[0]
    demand(begins, "the machine does not begin where the network does")
    loose, scores = Network(network.tensors, network.model, tie=0.0), []
    for state, token in moves:
        place, there = machine.places[state], machine.transitions[state][token]
        target, answer = machine.places[there], machine.outputs[there]
        where, key = f"from state {state}, token {token}", (place, token)
        if (state, token) in covered:
            move = known[key] = known.get(key) or network.move(place, token)
            behind = 0.0
        else:  # nothing is claimed: it may be a tie
            move = loose.move(place, token, target)
            behind = DOUBT * max(1.0, np.abs(move.scores).max())
        demand(move.place == target, f"{where} leads elsewhere")
        demand(np.isfinite(move.scores).all(), f"{where} leads to scores that are not finite")
        same = move.scores.max() - move.scores[answer] <= behind
        demand(same, f"{where} leads to other scores")
        scores.append(move.scores)
    tokens = len(machine.transitions[0])
    return known, np.array(scores).reshape(len(machine.places), tokens, -1)


def _lead(scores: Array) -> float:
    """Return the lead of the best score over the second, relative to the scores if they exceed 1."""
    second, first = np.sort(scores)[-2:]
    return float((first - second) / max(1.0, np.abs(scores).max()))


def _check_margins(proof: FiniteProof, network: Network, taken: Sequence[Move]) -> None:
    """Demand margins that are large enough, and stated: decisions more closely than distances."""
    same = len(network.codes) == len(proof.layers)
    for layer, (codes, stated) in enumerate(zip(network.codes, proof.layers, strict=False)):
        gap, size = code_gap(codes), float(np.abs(codes).max())
        start = nearest(network.start[layer], codes)[1]
        snap = max(start, *(move.snaps[layer] for move in taken))
        clear = gap >= (RATIO - 0.01) * max(snap, DOUBT * max(1.0, size))
        demand(clear, f"layer {layer + 1}: a state is {snap:.3g} from its code, codes {gap:.3g} apart")
        gate = min((move.gates[layer] for move in taken if layer in move.gates), default=np.inf)
        same = same and stated.codes == len(codes) and close(size, stated.size)
        same = same and close(gap if len(codes) > 1 else None, stated.gap) and close(snap, stated.snap)
        same = same and close(None if gate == np.inf else gate, stated.gate, least=0.1)
    margin = min(_lead(move.scores) for move in taken)
    demand(margin >= TIE, "two scores are nearly a tie")
    demand(
        same and close(margin, proof.margin, least=0.1), "it has other margins than this locked model"
    )


def _check_steady(network: Network, taken: dict[Leaving, Move]) -> None:
    """Demand that moves and answers stay the same under small random changes of weights and codes."""
    source, exact = np.random.default_rng(0), network.tensors
    for _ in range(DRAWS):
        blurred = {
            name: value + BLUR * np.abs(value).clip(min=1) * source.standard_normal(value.shape)
            for name, value in exact.items()
            if name != "kept"
        }
        other = Network(blurred | {"kept": exact["kept"]}, network.model, tie=0.0)
        for leaving, here in taken.items():
            there = other.move(*leaving)
            same = here.place == there.place and here.scores.argmax() == there.scores.argmax()
            demand(same, "its behaviour depends on the last digits of its weights")
