"""The arguments of the kernel's functions, field by field as in `layout.hpp`.

Each is a structure of 64-bit numbers and pointers, here a tuple with names; what is not given is 0.
When the library is loaded, `description` is compared with what it was compiled from.
"""

from typing import Annotated, NamedTuple, get_type_hints

Int = Annotated[int, "int64"]
In = Annotated[int, "const void*"]
Out = Annotated[int, "void*"]
Mask = Annotated[int, "const bool*"]
Numbers = Annotated[int, "const int64*"]
Counts = Annotated[int, "const int32*"]
Reals = Annotated[int, "const double*"]
Real = Annotated[int, "double"]
"""As the integer of the same bits."""


class Scan(NamedTuple):
    """The bare recurrence, forward, or backward where `g_h` is given."""

    wide: Int = 0
    batch: Int = 0
    steps: Int = 0
    width: Int = 0
    order: Int = 0
    planes: Int = 0
    columns: Int = 0
    a: In = 0
    u: In = 0
    h0: In = 0
    reset: Mask = 0
    h: Out = 0
    g_h: In = 0
    g_a: Out = 0
    g_u: Out = 0
    g_h0: Out = 0


class Route(NamedTuple):
    """The recurrence of a router, forward, or backward where `g_h` is given."""

    wide: Int = 0
    batch: Int = 0
    steps: Int = 0
    width: Int = 0
    places: Int = 0
    columns: Int = 0
    maps: In = 0
    targets: Numbers = 0
    choice: Numbers = 0
    turns: In = 0
    h0: In = 0
    start: In = 0
    reset: Mask = 0
    h: Out = 0
    g_h: In = 0
    reaching: Out = 0
    before: Out = 0


class Resonate(NamedTuple):
    """Resonators, forward, or backward where `g_y` is given."""

    wide: Int = 0
    batch: Int = 0
    rows: Int = 0
    steps: Int = 0
    width: Int = 0
    table: Int = 0
    keep: Int = 0
    entries: In = 0
    turn: In = 0
    h0: In = 0
    index: Numbers = 0
    reset: Mask = 0
    y: Out = 0
    h: Out = 0
    g_y: In = 0
    g_last: In = 0
    g_entries: Out = 0
    g_turn: Out = 0
    g_h0: Out = 0


class Block(NamedTuple):
    """One layer of a stack, in either direction."""

    wide: Int = 0
    batch: Int = 0
    steps: Int = 0
    width: Int = 0
    groups: Int = 0
    angles: Int = 0
    gates: Int = 0
    rotate: Int = 0
    bounded_angle: Int = 0
    decay: Int = 0
    silu: Int = 0
    norm: Int = 0
    keep: Int = 0
    angle_inputs: Int = 0
    gate_inputs: Int = 0
    z: In = 0
    coupled: In = 0
    skip: In = 0
    h0: In = 0
    start: In = 0
    reset: Mask = 0
    angle_weight: In = 0
    angle_bias: In = 0
    gate_weight: In = 0
    gate_bias: In = 0
    theta: Out = 0
    delta: Out = 0
    out: Out = 0
    h: Out = 0
    g_out: In = 0
    g_h: In = 0
    g_z: Out = 0
    g_theta: Out = 0
    g_delta: Out = 0
    g_coupled: Out = 0
    g_h0: Out = 0
    g_skip: Out = 0
    g_start: Out = 0
    g_angle_weight: Out = 0
    g_angle_bias: Out = 0
    g_gate_weight: Out = 0
    g_gate_bias: Out = 0


class Stack(NamedTuple):
    """Layers one after the other."""

    wide: Int = 0
    batch: Int = 0
    steps: Int = 0
    width: Int = 0
    depth: Int = 0
    blocks: Annotated[int, "const Block*"] = 0


class Stream(NamedTuple):
    """A whole model at one token."""

    wide: Int = 0
    depth: Int = 0
    width: Int = 0
    classes: Int = 0
    unit_features: Int = 0
    embedding: In = 0
    blocks: Annotated[int, "Block*"] = 0
    decoder_weight: In = 0
    decoder_bias: In = 0
    logits: Out = 0
    scratch: Out = 0


class Weight(NamedTuple):
    """A tensor of a model in training, with its state of Adam."""

    size: Int = 0
    trained: Int = 0
    value: Out = 0
    mean: Out = 0
    square: Out = 0
    steps: Annotated[int, "float*"] = 0


class Layer(NamedTuple):
    """A layer of a model in training; its tensors are numbers in a list of `Weight`."""

    angles: Int = 0
    gates: Int = 0
    angle_inputs: Int = 0
    rotate: Int = 0
    bounded_angle: Int = 0
    decay: Int = 0
    activation: Int = 0
    norm: Int = 0
    places: Int = 0
    choices: Int = 0
    by_token: Int = 0
    rank: Int = 0
    angle_weight: Int = -1
    angle_bias: Int = -1
    gate_weight: Int = -1
    gate_bias: Int = -1
    skip: Int = -1
    recall: Int = -1
    start: Int = -1
    point: Int = -1
    norm_weight: Int = -1
    norm_bias: Int = -1
    coupling_u: Int = -1
    coupling_v: Int = -1
    maps: Int = -1
    keys_weight: Int = -1
    keys_bias: Int = -1
    direction: Int = 0
    released: Int = 0
    summed: Int = 0
    gate_input: Int = 0
    cumulative: Int = 0
    map_weight: Int = -1
    map_bias: Int = -1
    entrance_weight: Int = -1
    entrance_bias: Int = -1


class Part(NamedTuple):
    """Rows of one padded length."""

    rows: Int = 0
    steps: Int = 0
    tokens: Numbers = 0
    labels: Numbers = 0


class Training(NamedTuple):
    """A model in training, and one step of it."""

    wide: Int = 0
    order: Int = 0
    width: Int = 0
    depth: Int = 0
    vocabulary: Int = 0
    classes: Int = 0
    tensors: Int = 0
    first_of_rows: Int = 0
    parts: Int = 0
    layers: Annotated[int, "const Layer*"] = 0
    weights: Annotated[int, "const Weight*"] = 0
    batch: Annotated[int, "const Part*"] = 0
    gradient: Out = 0
    reading: Int = 0
    embedding: Int = -1
    decoder_weight: Int = -1
    decoder_bias: Int = -1
    projection: Int = -1
    narrow: Int = 0
    widen_tanh: Int = 0
    widen_weight: Int = -1
    widen_bias: Int = -1
    focal: Int = 0
    focal_gamma: Real = 0
    focal_alpha: Real = 0
    temperature: Real = 0
    rate: Real = 0
    first_decay: Real = 0
    second_decay: Real = 0
    epsilon: Real = 0
    weight_decay: Real = 0
    most: Real = 0
    loss: Real = 0
    norm: Real = 0
    hits: Int = 0
    taken: Int = 0
    whole: Int = 0
    span: Int = 0
    scores: Out = 0


class Table(NamedTuple):
    """An automaton and a sequence."""

    wide: Int = 0
    length: Int = 0
    symbols: Int = 0
    row: Int = 0
    sequence: In = 0
    rows: Annotated[int, "const uint32*"] = 0
    answers: Annotated[int, "const uint16*"] = 0
    out: Annotated[int, "uint16*"] = 0


class Tree(NamedTuple):
    """Labelled rows, their common prefixes once."""

    nodes: Int = 0
    symbols: Int = 0
    classes: Int = 0
    parent: Counts = 0
    token: Counts = 0
    end: Counts = 0
    first: Counts = 0
    label: Counts = 0
    weight: Counts = 0


class Merge(NamedTuple):
    """From a tree to a machine."""

    tree: Annotated[int, "const Tree*"] = 0
    most: Int = 0
    breadth: Int = 0
    conflict: Real = 0
    floor: Real = 0
    agree: Reals = 0
    table: Annotated[int, "int32*"] = 0


class Polish(NamedTuple):
    """A machine's table, made to fit a tree better."""

    tree: Annotated[int, "const Tree*"] = 0
    states: Int = 0
    room: Int = 0
    split: Int = 0
    work: Int = 0
    miss_bits: Reals = 0
    state_bits: Reals = 0
    row_bits: Reals = 0
    table: Annotated[int, "int32*"] = 0


ROTATE = {"none": 0, "input": 1, "state": 2}
DECAY = {"softplus": 0, "exp": 1, "unit": 2, "reset": 3, "switch": 4, "none": 5, "count": 6}
ACTIVATION = {"none": 0, "boundary": 1, "step": 2}
NORM = {"none": 0, "complex": 1, "layer": 2, "root": 3}
GATE_INPUT = {"input": 0, "entering": 1, "state": 2}
READING = {"state": 0, "phasor": 1, "angle": 2}


def description() -> str:
    """A line for each structure, with types and names, and for each option, with its numbers."""
    lines = []
    training = (Weight, Layer, Part, Training)
    for each in (Scan, Route, Resonate, Block, Stack, Stream, *training, Table, Tree, Merge, Polish):
        hints = get_type_hints(each, include_extras=True)
        fields = [f"{hint.__metadata__[0]} {name}" for name, hint in hints.items()]
        lines.append(f"{each.__name__}: {', '.join(fields)}\n")
    choices = {
        "Rotate": ROTATE, "Decay": DECAY, "Activation": ACTIVATION, "Norm": NORM,
        "GateInput": GATE_INPUT, "Reading": READING,
    }  # fmt: skip
    for name, numbers in choices.items():
        options = [f"{option} {number}" for option, number in numbers.items()]
        lines.append(f"{name}: {', '.join(options)}\n")
    return "".join(lines)
