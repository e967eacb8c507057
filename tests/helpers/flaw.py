"""A check of the invariant of two machines that count, without a walk."""

from csprop.automata.comparison import Invariant, Pair, _coarsest, _stepping
from csprop.automata.counting import CounterMachine


def flaw(left: CounterMachine, right: CounterMachine, invariant: Invariant) -> str | None:
    """Return why the pairs do not prove that the machines agree; None if they do."""
    ranges, pairs = invariant.ranges, set(invariant.pairs)
    least = _coarsest(left, right)
    known = dict(zip(ranges.forms, ranges.bounds, strict=True))
    if any(known.get(form, -1) < bound for form, bound in zip(least.forms, least.bounds, strict=True)):
        return "a form is missing, or its bound is too small for the windows"
    if min(ranges.periods, default=1) < 1 or min(ranges.bounds, default=0) < 0:
        return "a period or a bound is too small"
    start: Pair = (left.control.start, right.control.start, (0,) * len(ranges.forms))
    if start not in pairs:
        return "the start is missing"
    step = _stepping(left, right, ranges.forms)
    for p, q, values in pairs:
        if len(values) != len(ranges.forms) or ranges.rough(values) != values:
            return f"the pair {(p, q, values)} is malformed"
        for token in range(left.symbols):
            for known_after in ranges.after(values, token):
                after = step(p, q, token, known_after)
                if after not in pairs:
                    return f"token {token} leads from {(p, q, values)} to {after}, which is missing"
                if left.control.outputs[after[0]] != right.control.outputs[after[1]]:
                    return f"token {token} leads from {(p, q, values)} to different answers"
    return None
