"""The certificate of a model: the claim, and everything that a verifier needs.

`Certificate` holds the content of certificate.json, and `to_json` and `from_json` convert it. The file
has over 300 lines because it has all types of the format. The prover is `csprop.proof.certify`, the
verifier `csprop.proof.verify`.
"""

from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from math import isfinite
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from csprop.automata.automaton import Automaton, CounterAutomaton
from csprop.automata.names import describe_size

FORMAT = 2


@dataclass(frozen=True)
class StateTable:
    """A finite machine; its first state is the start."""

    places: tuple[tuple[int, ...], ...]  # the number of the code of each layer, for each state
    transitions: tuple[tuple[int, ...], ...]
    outputs: tuple[int | None, ...]
    """The class of each state; None for the start, unless a transition enters it."""

    @property
    def network_states(self) -> int:
        """The states of the network, which may have several answers each."""
        return len(set(self.places))


@dataclass(frozen=True)
class LayerMargins:
    """The distances between the codes of a layer, and from its states to their codes."""

    codes: int
    gap: float | None  # the smallest distance between two codes; None if there is only one
    snap: float  # the largest distance from a state to its code
    size: float  # the largest absolute value in a code
    gate: float | None
    """The smallest |δ| of a gate that is rounded to 0 or 1, or the distance of an angle from a tie, in
    parts of a turn; of a router the smallest lead of the chosen map or target. None if nothing is
    rounded."""


@dataclass(frozen=True)
class Search:
    """The search that led to a finite machine, after rounds of further training."""

    rounds: int
    radius: float  # states that are closer than this are one state
    channels: tuple[int, ...]  # the number of channels in use in each layer


@dataclass(frozen=True)
class FiniteProof:
    """The proof that a locked model is a finite machine, which answers as the task does."""

    machine: StateTable
    layers: tuple[LayerMargins, ...]
    gap_over_snap: float  # the smallest gap allowed, as a multiple of the snapping distance
    doubt: float  # smaller differences are not trusted
    margin: float
    """The smallest lead of a best score over the second, relative to the scores if they exceed 1."""
    depth: int | None  # the largest depth of the inputs, for a task with infinitely many states
    search: Search
    pairs: tuple[tuple[int, int], ...] = ()
    """Pairs of states of the machine and of the task, by number, closed under every token."""
    task_states: tuple[str, ...] = ()  # the `repr` of each state of the task


@dataclass(frozen=True)
class CountingTable:
    """A network that counts, as a table of its decisions."""

    unit: int
    """The increment of the network for an increment of 1, in the channel with the largest numbers."""
    increments: tuple[tuple[int, ...], ...]
    """The increments of each counter: `increments[token][counter]`."""
    window: int  # counts are known from −window to window; the ends stand for all counts beyond
    holds: tuple[tuple[int, ...], ...]
    """The states of the layer above the counters: for each switch whether it has been replaced, or for
    each group of a router the place of its content."""
    decisions: tuple[tuple[int, int, tuple[int, ...], int, int], ...]
    """(number in `holds`, token, counts after it) and the (next number, answer)."""

    @property
    def control_states(self) -> int:
        """The states of the control: what is held together with an answer, and the start."""
        return 1 + len({(after, answer) for *_, after, answer in self.decisions})


@dataclass(frozen=True)
class CountRanges:
    """The knowledge about the values of linear forms of the tokens, as in `csprop.automata.forms`."""

    forms: tuple[tuple[int, ...], ...]
    bounds: tuple[int, ...]
    periods: tuple[int, ...]
    relations: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class ExactCounts:
    """The largest counts that are exact: in the network's float32 numbers, and in the locked model."""

    network: int
    locked: int


@dataclass(frozen=True)
class CountingSearch:
    """The search that led to a machine that counts.

    The weights above the counters are `trained`, `made anew`, or those of a `router`.
    """

    rounds: int
    control: str


CountPairs = tuple[tuple[int, int, tuple[int, ...]], ...]


@dataclass(frozen=True)
class CountingProof:
    """The proof that a network computes a machine with counters, which answers as the task does."""

    counting: CountingTable
    ranges: CountRanges
    pairs: CountPairs
    """Triples of a number in `holds`, a state of the automaton, and values; closed as pairs are."""
    gate: float  # the smallest distance of a gate from 0, or the smallest lead of a chosen map or place
    margin: float  # the smallest lead of a best score over the second
    doubt: float
    exact_up_to: ExactCounts
    search: CountingSearch
    task_ranges: CountRanges | None = None
    task_pairs: CountPairs = ()
    """Triples of a state of the automaton, a state of the task's machine, and values."""


@dataclass(frozen=True)
class Counterexample:
    """An input that the model answers wrongly."""

    sequence: str
    length: int
    said: str
    right: str


@dataclass(frozen=True)
class Trial:
    """A test on every input of one length."""

    length: int
    inputs: int
    wrong: int


@dataclass(frozen=True)
class WeightsFile:
    """The file of weights that a certificate is about."""

    file: str
    sha256: str


@dataclass(frozen=True)
class Certificate:
    """The proof of a model, or the reason why nothing is proven."""

    verdict: str
    proven: bool
    statement: str
    task: dict[str, Any] = field(repr=False)
    proof: FiniteProof | CountingProof | None = field(default=None, repr=False)
    automaton: Automaton | CounterAutomaton | None = field(default=None, repr=False)
    """The smallest automaton with the same answers."""
    disagreeing: tuple[int, ...] = field(default=(), repr=False)
    """The rows of a data file whose labels are not the answers of the machine; the first row is 1."""
    rows: int | None = field(default=None, repr=False)
    """The number of rows of the file, if some disagree."""
    counterexample: Counterexample | None = field(default=None, repr=False)
    trial: Trial | None = field(default=None, repr=False)
    trusted: tuple[str, ...] = field(default=(), repr=False)
    """The assumptions of the proof."""
    model: dict[str, Any] | None = field(default=None, repr=False)
    """The options of the model, as config.json has them; None before the certificate is saved."""
    weights: WeightsFile | None = field(default=None, repr=False)
    locked: Any = field(default=None, repr=False, compare=False)
    """The locked model, a `Locked` or `LockedCounter`; None if nothing is proven."""
    scores: Any = field(default=None, repr=False, compare=False)
    """The scores after each transition of a finite machine, once it is verified."""
    unchecked: str = field(default="", repr=False)
    """The reason why a stored certificate could not be verified; then `proven` is False."""

    def __repr__(self) -> str:
        return f"Certificate({self.task['name']}: {self.summary})"

    def _repr_html_(self) -> str:
        from csprop.proof.facts import html

        return html(self)

    @property
    def summary(self) -> str:
        """The verdict in a few words."""
        if self.unchecked:
            return f"not proven: its certificate could not be checked ({self.unchecked})"
        return self.verdict if self.proven else f"not proven ({self.verdict})"

    @property
    def size(self) -> str:
        """The size of the automaton, such as "3 states and 1 counter"; empty if nothing is proven."""
        machine = self.automaton
        return "" if machine is None else describe_size(len(machine), machine.counters)

    @property
    def minimal_states(self) -> int | None:
        """The number of states of the automaton."""
        return None if self.automaton is None else len(self.automaton)

    @property
    def document(self) -> dict[str, Any]:
        """The content of certificate.json."""
        return self.to_json()

    def to_json(self) -> dict[str, Any]:
        """Return the content of certificate.json."""
        document = {"format": FORMAT} | {name: getattr(self, name) for name in REQUIRED}
        for part in (self.trial, self.proof):
            document |= {} if part is None else _to_json(part)
        if self.automaton is not None:
            document |= {"automaton": self.automaton.to_json(), "minimal_states": len(self.automaton)}
        for name in OPTIONAL:
            if (value := getattr(self, name)) not in (None, ()):
                document[name] = _to_json(value)
        return document

    @classmethod
    def from_json(cls, document: Any) -> "Certificate":
        """Return the certificate that `to_json` described.

        Raises:
            ValueError: the document is malformed.
        """
        if type(document) is not dict or _typed(int, document.get("format"), "format") != FORMAT:
            raise ValueError("it is not a certificate of the format that this csprop reads")
        rest = {name: value for name, value in document.items() if name != "format"}
        kinds = {"counting": CountingProof, "machine": FiniteProof}
        proof = next((kinds[name] for name in kinds if name in rest), None)
        values: dict[str, Any] = {"proof": None if proof is None else _take(proof, rest)}
        if (proof is None) != ("automaton" not in rest):
            raise ValueError("it has a proof without an automaton, or an automaton without a proof")
        if proof is not None:
            kind = CounterAutomaton if proof is CountingProof else Automaton
            values["automaton"] = kind.from_json(rest.pop("automaton"))
            if _typed(int, rest.pop("minimal_states"), "minimal_states") != len(values["automaton"]):
                raise ValueError("minimal_states is not the number of states of its automaton")
        if "length" in rest:
            values["trial"] = _take(Trial, rest)
        for name in (*REQUIRED, *OPTIONAL):
            if name in rest or name in REQUIRED:
                values[name] = _typed(_hints(cls)[name], rest.pop(name), name)
        if rest:
            raise ValueError(f"{next(iter(rest))!r} is not a field of a certificate")
        return cls(**values)


REQUIRED = ("verdict", "proven", "statement", "task")
OPTIONAL = ("counterexample", "trusted", "rows", "disagreeing", "model", "weights")
"""Fields that JSON has only where they say something."""


def _to_json(value: Any) -> Any:
    """Return dataclasses as dictionaries, without fields that are empty by default; tuples as lists."""
    if is_dataclass(value):
        named = ((each, getattr(value, each.name)) for each in fields(value))
        return {each.name: _to_json(inside) for each, inside in named if inside != each.default}
    return [_to_json(each) for each in value] if isinstance(value, tuple) else value


_hints = cache(get_type_hints)


def _take(kind: Any, rest: dict[str, Any]) -> Any:
    """Remove the fields of a dataclass from a document, and return the dataclass."""
    values = {}
    for each in fields(kind):
        if each.name in rest or each.default is MISSING:
            values[each.name] = _typed(_hints(kind)[each.name], rest.pop(each.name), each.name)
    return kind(**values)


def _typed(hint: Any, value: Any, name: str) -> Any:
    """Return a JSON value as a value of a type.

    Raises:
        ValueError: it does not have this type. A bool is not an int, and an int is not a float.
        KeyError: a field is missing.
    """
    kind, inside = get_origin(hint) or hint, get_args(hint)
    if kind is UnionType:  # always with None
        return None if value is None else _typed(inside[0], value, name)
    structure = list if kind is tuple else dict if is_dataclass(kind) else kind
    if type(value) is not structure or (kind is float and not isfinite(value)):
        raise ValueError(f"{name} has a wrong type")
    if is_dataclass(kind):
        rest = dict(value)
        made = _take(kind, rest)
        if rest:
            raise ValueError(f"{next(iter(rest))!r} is not a field of {name}")
        return made
    if kind is not tuple:
        return value
    if inside == (int, ...) and set(map(type, value)) <= {int}:  # long lists at once
        return tuple(value)
    hints = inside[:1] * len(value) if inside[-1] is ... else inside
    return tuple(_typed(each, below, name) for each, below in zip(hints, value, strict=True))
