"""The rows that contradict a machine, beside a loop over their tokens."""

import numpy as np
import pytest

from csprop.automata.machine import Machine
from csprop.data.examples import WINDOW
from csprop.data.summary import find_disagreements
from csprop.tasks.rows import from_rows


@pytest.mark.parametrize("every", [False, True])
def test_they_are_those_of_a_loop_over_every_token(every: bool) -> None:
    draw = np.random.default_rng(5)
    machine = Machine(transitions=((1, 2), (2, 0), (1, 1)), outputs=(0, 1, 2))
    expected, sequences, labels = [], [], []
    for row, length in enumerate(draw.integers(1, 90, 2000).tolist()):
        tokens = draw.integers(0, 2, length).tolist()
        given = draw.integers(0, 3, length).tolist()
        state, wrong = 0, []
        for step, (token, label) in enumerate(zip(tokens, given, strict=True)):
            state = machine.transitions[state][token]
            if (every or step == length - 1) and machine.outputs[state] != label:
                wrong.append((row, step, machine.outputs[state]))
        expected += wrong[:1]
        sequences.append("".join(map(str, tokens)))
        labels.append(given if every else given[-1])
    task = from_rows(sequences, labels)
    assert sum(map(len, sequences)) > WINDOW  # more than one window
    assert list(find_disagreements(machine, task.data)) == expected
    assert 1000 < len(expected) < 2000
