"""Boxes in a row and labelled arrows between them, drawn in the characters of a terminal.

Every arrow has columns of its own where it leaves and where it arrives, and a lane of its own where it
overlaps another: arrows cross, but never join. Arrows to the right are above the boxes, arrows to the
left below.
"""

from dataclasses import dataclass
from typing import NamedTuple

APART = 3
"""Columns between two boxes, at least."""
MOST_LANES = 12
"""The largest number of lanes above the boxes, or below them, that can still be followed."""
ASCII = str.maketrans("┌┐└┘┴┬─│┼▼▲→↻", "++++++-||v^>@")


class Arc(NamedTuple):
    """An arrow from a state to another one."""

    state: int
    there: int
    label: str


class Box(NamedTuple):
    """The text in a box."""

    name: str
    stays: tuple[str, ...] = ()
    """Lines for the tokens that lead from the state to itself."""

    @property
    def width(self) -> int:
        return max(wide(self.name), *(2 + wide(line) for line in self.stays), 0)


@dataclass(frozen=True)
class _Line:
    """The way of an arrow: up or down at one column, along its lane, and back at the other."""

    arc: Arc
    leaves: int
    arrives: int
    lane: int

    @property
    def ends(self) -> tuple[int, int]:
        return min(self.leaves, self.arrives), max(self.leaves, self.arrives)


def wide(text: str) -> int:
    """Return the number of columns that a text takes on a terminal."""
    from rich.cells import cell_len

    return cell_len(text)


def draw_boxes(boxes: list[Box], arcs: list[Arc], start: int, width: int, ascii: bool) -> list[str]:
    """Return the lines of a drawing; none if they would be wider, or too many arrows overlap.

    Args:
        boxes: the states, from left to right.
        arcs: arrows between different states, at most one from one state to another.
        start: the state with an arrow that comes from nowhere.
        width: the largest number of columns.
        ascii: use ASCII for lines and arrow heads.
    """
    above = [arc for arc in arcs if arc.there > arc.state]
    below = [arc for arc in arcs if arc.there < arc.state]
    ports = [_ports(above, state) for state in range(len(boxes))]
    under = [_ports(below, state)[::-1] for state in range(len(boxes))]
    inner = [
        max(box.width, *(2 * len(each) - 1 for each in (up, down))) + 2
        for box, up, down in zip(boxes, ports, under, strict=True)
    ]
    gaps = [APART] * (len(boxes) - 1)
    while True:
        lefts = [2]
        for size, gap in zip(inner, gaps, strict=False):
            lefts.append(lefts[-1] + size + 2 + gap)
        if lefts[-1] + inner[-1] + 2 > width:
            return []
        sides = [
            _lanes(above, _columns(ports, lefts, inner)),
            _lanes(below, _columns(under, lefts, inner)),
        ]
        narrow = next((line for side in sides for line in side if _place(line, side) is None), None)
        if narrow is None:
            break
        gaps[max(narrow.arc.state, narrow.arc.there) - 1] += 1
    if any(line.lane >= MOST_LANES for side in sides for line in side):
        return []
    canvas = _Canvas(width, ascii)
    top = canvas.side(sides[0], upwards=True)
    height = 3 + max(len(box.stays) for box in boxes)
    for box, left, size in zip(boxes, lefts, inner, strict=True):
        canvas.box(box, top, left, size, height)
    canvas.put(top + 1, lefts[start] - 2, "→")
    canvas.border(sides[0], top, "┴")
    canvas.border(sides[1], top + height - 1, "┬")
    canvas.side(sides[1], upwards=False, top=top + height)
    return canvas.lines()


def _ports(arcs: list[Arc], state: int) -> list[Arc]:
    """Return the arrows at one side of a box, in the order in which they cross each other least.

    Of arrows to the right, those that arrive come first, the shortest first; then those that leave, the
    longest first. For arrows to the left it is the other way round.
    """
    arriving = [arc for arc in arcs if arc.there == state]
    leaving = [arc for arc in arcs if arc.state == state]
    return sorted(arriving, key=_span) + sorted(leaving, key=_span, reverse=True)


def _span(arc: Arc) -> int:
    return abs(arc.there - arc.state)


def _columns(ports: list[list[Arc]], lefts: list[int], inner: list[int]) -> dict[tuple[Arc, int], int]:
    """Return the column of each arrow at each of its boxes."""
    columns = {}
    for state, (arcs, left, size) in enumerate(zip(ports, lefts, inner, strict=True)):
        for place, arc in enumerate(arcs, start=1):
            columns[arc, state] = left + place * (size + 1) // (len(arcs) + 1)
    return columns


def _lanes(arcs: list[Arc], columns: dict[tuple[Arc, int], int]) -> list[_Line]:
    """Return the ways of arrows; a long one is outside of the shorter ones that it overlaps."""
    lines: list[_Line] = []
    ways = [_Line(arc, columns[arc, arc.state], columns[arc, arc.there], 0) for arc in arcs]
    for way in sorted(ways, key=lambda each: each.ends[1] - each.ends[0]):
        low, high = way.ends
        met = [each.lane for each in lines if each.ends[0] <= high and low <= each.ends[1]]
        lines.append(_Line(way.arc, way.leaves, way.arrives, max(met, default=-1) + 1))
    return lines


def _place(line: _Line, side: list[_Line]) -> int | None:
    """Return the first column of the label, near the middle where no arrow crosses, or None."""
    low, high = line.ends
    crossing = {column for other in side if other.lane > line.lane for column in other.ends}
    size = wide(line.arc.label) + 2  # a blank on either side, and beyond them a piece of the line
    free = [
        column
        for column in range(low + 2, high - size)
        if not crossing & set(range(column - 1, column + size + 1))
    ]
    middle = (low + high - size) / 2
    return min(free, key=lambda column: abs(column - middle), default=None)


class _Canvas:
    """Cells in which characters are put; a wide one takes two."""

    def __init__(self, width: int, ascii: bool) -> None:
        self.width, self.ascii = width, ascii
        self.rows: list[list[str]] = []

    def put(self, row: int, column: int, text: str, sign: bool = True) -> None:
        """Put a text into a row: a sign of the drawing, which may have to be ASCII, or a name."""
        while len(self.rows) <= row:
            self.rows.append([" "] * self.width)
        for character in text:
            size = wide(character)
            if not size:  # it belongs to the one before
                self.rows[row][column - 1] += character
                continue
            self.rows[row][column] = character.translate(ASCII) if self.ascii and sign else character
            self.rows[row][column + 1 : column + size] = [""] * (size - 1)
            column += size

    def box(self, box: Box, row: int, left: int, size: int, height: int) -> None:
        """Put a box with its texts."""
        self.put(row, left, f"┌{'─' * size}┐")
        for number in range(1, height - 1):
            self.put(row + number, left, f"│{' ' * size}│")
        self.put(row + height - 1, left, f"└{'─' * size}┘")
        self.put(row + 1, left + 2, box.name, sign=False)
        for number, line in enumerate(box.stays, start=2):
            self.put(row + number, left + 2, " " if number > 2 else "↻")
            self.put(row + number, left + 4, line, sign=False)

    def border(self, side: list[_Line], row: int, sign: str) -> None:
        """Mark where arrows leave."""
        for line in side:
            self.put(row, line.leaves, sign)

    def side(self, side: list[_Line], upwards: bool, top: int = 0) -> int:
        """Put the arrows above the boxes or below them, and return the row after them."""
        if not side:
            return top
        lanes = 1 + max(line.lane for line in side)
        near = top + lanes if upwards else top  # the row next to the boxes
        away = -1 if upwards else 1
        left, right = ("┌", "┐") if upwards else ("└", "┘")
        for line in side:
            row, (low, high) = near + away * (line.lane + 1), line.ends
            self.put(row, low, f"{left}{'─' * (high - low - 1)}{right}")
        for line in side:
            for lane in range(line.lane):
                for column in line.ends:
                    row = near + away * (lane + 1)
                    self.put(row, column, "│" if self.rows[row][column] == " " else "┼")
            self.put(near, line.leaves, "│")
            self.put(near, line.arrives, "▼" if upwards else "▲")
        for line in side:
            column = _place(line, side)
            if column is not None:
                row = near + away * (line.lane + 1)
                self.put(row, column, f" {line.arc.label} ", sign=False)
        return top + lanes + 1

    def lines(self) -> list[str]:
        """Return the rows as text."""
        return ["".join(row).rstrip() for row in self.rows]
