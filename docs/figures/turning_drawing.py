"""The drawing of turning.py: an SVG that moves by CSS alone, since a picture in a page runs no script.

The styles of the elements, in turning.css, are those of the last frame, which a viewer shows that does
not animate, or whose reader asked for less motion. The keyframes lead there from the first token. The
colours are those of src/csprop/report/assets/page.css.
"""

import json
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import cos, radians, sin
from pathlib import Path

from csprop.training.scores import percent

WIDTH, HEIGHT = 960, 520
LEAD, STEP, TURN, FADE, REST, BACK = 0.9, 0.45, 0.3, 0.15, 3.75, 0.5  # seconds
CELL, LEFT, ROWS = 34, 124, {"tokens": 58, "csprop": 100, "paper": 142}
PANEL, BESIDE, FOOT = 458, 474, 488  # a panel's width, from one to the next, and their last line
CIRCLE, RADIUS = (132, 372), 76
RING, AROUND, STATE, LOOP = (344, 383), 62, 25, 43
STYLE = Path(__file__).parent / "turning.css"


@dataclass
class Reading:
    """What two models do as they read a sequence. Angles are in degrees, a list for each channel."""

    task: str
    seed: int
    trained_on: int
    tokens: list[int]
    truth: list[int]
    """The right answer after each token."""
    locked: list[int]
    printed: list[int]
    machine: list[list[int]]
    """The next state of the proven machine, by state and token; it begins in state 0."""
    hands: list[list[float]]
    """Of the locked rotor: before the first token, and after each."""
    phases: list[list[float]]
    """Of the printed model: after each token."""
    verdict: str
    at_trained: float
    """Of all inputs of the trained length, the share on which the printed model is right."""
    beyond: float
    """The same of random inputs, over all longer lengths of the picture."""


class Film:
    """Keyframes that repeat together. It begins with the first token read."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.length = LEAD + (tokens - 1) * STEP + REST
        self.rules: list[str] = []

    def moved(self, values: list[str], back: str | None = None, turn: float = TURN) -> str:
        """The class of an element with one declaration after each token, and `back` at the very end."""
        frames = [(0.0, values[0])]
        for step, (before, after) in enumerate(pairwise(values)):
            if before != after:
                ends = LEAD + step * STEP + TURN
                frames += [(ends - turn, before), (ends, after)]
        frames += [(self.length - BACK, values[-1]), (self.length, back or values[0])]
        name = f"a{len(self.rules)}"
        steps = "".join(f"{number(100 * time / self.length)}%{{{css}}}" for time, css in frames)
        self.rules.append(f"@keyframes {name}{{{steps}}}.{name}{{animation-name:{name}}}")
        return f"a {name}"

    def seen(self, shown: list[bool]) -> str:
        """The class of an element that is shown after some tokens."""
        moved = self.moved([f"opacity:{int(each)}" for each in shown], turn=FADE)
        return moved if shown[-1] else f"off {moved}"

    def css(self) -> str:
        moving = f".a{{animation:{number(self.length)}s ease-in-out 3}}" + "".join(self.rules)
        return f"@media(prefers-reduced-motion:no-preference){{{moving}}}"


def drawn(reading: Reading) -> str:
    film = Film(len(reading.tokens))
    parts = [strip(film, reading), left(film, reading), right(film, reading)]
    facts = {name: value for name, value in asdict(reading).items() if name not in ("hands", "phases")}
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-labelledby="title desc">',
            '<title id="title">A locked rotor and the printed model count ones modulo 3</title>',
            f'<desc id="desc">{described(reading)}</desc>',
            f"<metadata>{json.dumps(facts)}</metadata>",
            f"<style>{STYLE.read_text()}{film.css()}</style>",
            f'<rect class="paper" x="1" y="1" width="{WIDTH - 2}" height="{HEIGHT - 2}" rx="14"/>',
            *parts,
            "</svg>\n",
        ]
    )


def described(reading: Reading) -> str:
    longest, trained = len(reading.tokens), reading.trained_on
    wrong = [str(t) for t, good in enumerate(judged(reading), trained) if not good]
    return (
        f"Both models are trained on sequences of {trained} tokens and read "
        f"{''.join(map(str, reading.tokens))}. The hands of the locked rotor turn to the same places "
        f"again and again, and beside them is its machine of {len(reading.machine)} states. Its answer "
        f"is right after every token, and {reading.verdict}. The printed model has learnt the answer "
        f"after {trained} tokens and is judged from there on; it is wrong after {', '.join(wrong)}. "
        f"It is right on {percent(reading.at_trained)} of all inputs of {trained} tokens, and on "
        f"{percent(reading.beyond)} of random ones of {trained + 1} to {longest}."
    )


def judged(reading: Reading) -> list[bool]:
    """Which answers of the printed model are right, from the trained length on."""
    pairs = list(zip(reading.printed, reading.truth, strict=True))
    return [said == true for said, true in pairs[reading.trained_on - 1 :]]


def number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def polar(angle: float, radius: float) -> str:
    return f"{number(radius * cos(radians(angle)))} {number(radius * sin(radians(angle)))}"


def text(x: float, y: float, words: str, style: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{style}">{words}</text>'


def sign(x: float, y: float, good: bool) -> str:
    """A tick or a cross in a square, without a font."""
    kind, path = ("right", "M-7 0l5 6 9-11") if good else ("wrong", "M-6-6l12 12M6-6l-12 12")
    square = f'<rect class="{kind}" x="-14" y="-14" width="28" height="28" rx="7"/>'
    return f'<g transform="translate({x:g} {y})">{square}<path class="mark" d="{path}"/></g>'


def strip(film: Film, reading: Reading) -> str:
    """The tokens, and which answers are right."""
    steps, trained = range(len(reading.tokens)), reading.trained_on
    edge, end = LEFT + trained * CELL, LEFT + len(steps) * CELL
    places = [f"transform:translateX({step * CELL}px)" for step in steps]
    made = [
        f'<rect class="now {film.moved(places)}" style="{places[-1]}" x="{LEFT}" y="54" '
        f'width="{CELL}" height="130" rx="8"/>',
        text(24, 40, "How many 1s so far, modulo 3?", "big"),
        *(text(24, y + 27, name) for name, y in ROWS.items()),
        text(LEFT + 4, ROWS["paper"] + 27, f"asked from token {trained} on"),
    ]
    for step in steps:
        x = LEFT + (step + 0.5) * CELL
        made.append(text(x, ROWS["tokens"] + 28, str(reading.tokens[step]), "token m"))
        shown = film.seen([now >= step for now in steps])
        for row, answers in (("csprop", reading.locked), ("paper", reading.printed)):
            if row == "paper" and step < trained - 1:
                continue
            y = ROWS[row] + 19
            made.append(f'<circle class="blank" cx="{x:g}" cy="{y}" r="3"/>')
            made.append(f'<g class="{shown}">{sign(x, y, answers[step] == reading.truth[step])}</g>')
    return "".join(made) + (
        f'<path class="line dash" d="M{edge} 50V216"/>'
        f'<path class="line" d="M{LEFT + 3} 187v6H{edge - 8}v-6M{edge + 8} 187v6H{end - 3}v-6"/>'
        + text((LEFT + edge) / 2, 218, f"trained on {trained} tokens", "m")
        + text((edge + end) / 2, 218, "longer", "m")
    )


def panel(x: float, title: str) -> str:
    card = f'<rect class="card" x="{x + 14}" y="232" width="{PANEL}" height="274" rx="12"/>'
    return card + text(x + 34, 269, title, "big")


def circle(film: Film, x: float, angles: list[list[float]]) -> str:
    """Hands that turn. The first leaves a dot wherever it stops."""
    made, stops = [f'<circle class="rim" r="{RADIUS}"/>'], range(len(angles[0]))
    for stop in stops:
        place = f'transform="translate({polar(angles[0][stop], RADIUS)})"'
        made.append(f'<circle class="dot {film.seen([now >= stop for now in stops])}" {place} r="7"/>')
    for hand, turns in reversed(list(enumerate(angles))):
        values = [f"transform:rotate({number(angle)}deg)" for angle in turns]
        back = f"transform:rotate({number(unwound([turns[-1], turns[0]])[-1])}deg)"
        line, tip, size = ("thin", "small", 5) if hand else ("hand", "tip", 10)
        made.append(
            f'<g class="{film.moved(values, back)}" style="{values[-1]}"><path class="{line}" '
            f'd="M0 0H{RADIUS}"/><circle class="{tip}" cx="{RADIUS}" r="{size}"/></g>'
        )
    place = f"translate({x + CIRCLE[0]} {CIRCLE[1]})"
    return f'<g transform="{place}">{"".join(made)}<circle class="small" r="5"/></g>'


def unwound(angles: list[float]) -> list[float]:
    """The same angles, such that each turn is the shorter way round."""
    found = angles[:1]
    for angle in angles[1:]:
        found.append(found[-1] + (angle - found[-1] + 180) % 360 - 180)
    return found


def left(film: Film, reading: Reading) -> str:
    top = reading.hands[0][0] - 90  # the angle that is drawn at the right; on a screen y points down
    hands = [unwound([top - angle for angle in angles[1:]]) for angles in reading.hands]
    proven = sign(48, FOOT - 8, True) + text(72, FOOT, reading.verdict, "good")
    return (
        panel(0, "csprop, locked")
        + circle(film, 0, hands)
        + machine(film, reading)
        + at_end(film, proven)
    )


def at_end(film: Film, made: str) -> str:
    return f'<g class="{film.seen([False] * (film.tokens - 1) + [True])}">{made}</g>'


def machine(film: Film, reading: Reading) -> str:
    """States in a ring, and an arrow for each state and token. The current ones are lit."""
    states, used = [0], []
    for token in reading.tokens:
        used.append((states[-1], token))
        states.append(reading.machine[states[-1]][token])
    arrows, discs = [], []
    for state, row in enumerate(reading.machine):
        angle = 360 * state / len(reading.machine) - 90
        for token, following in enumerate(row):
            path = arrow(angle, token, stays=following == state)
            lit = film.seen([each == (state, token) for each in used])
            arrows.append(f'{path}<g class="lit {lit}">{path}</g>')
        disc = f'<circle class="state" r="{STATE}"/>{text(0, 9.5, str(state), "name m")}'
        lit = film.seen([each == state for each in states[1:]])
        place = f'transform="translate({polar(angle, AROUND)})"'
        discs.append(f'<g {place}>{disc}<g class="lit {lit}">{disc}</g></g>')
    return f'<g transform="translate({RING[0]} {RING[1]})">{"".join(arrows + discs)}</g>'


def arrow(angle: float, token: int, stays: bool) -> str:
    """From the state at an angle to the next one round the ring, or back to itself."""
    if stays:  # drawn above the state at the top, and turned
        curve = f"M-8 {-AROUND - STATE}c-16-38 32-38 18-5"
        tip, towards, label = f"9 {-AROUND - STATE - 3}", 114, polar(angle, AROUND + STATE + LOOP)
    else:
        curve = f"M{polar(-60, AROUND)}A{AROUND} {AROUND} 0 0 1 {polar(-6, AROUND)}"
        tip, towards, label = polar(-4, AROUND), 86, polar(angle + 60, AROUND - 20)
    head = f'<path class="head" transform="translate({tip}) rotate({towards})" d="M6 0L-8-7V7z"/>'
    return (
        f'<g transform="rotate({angle + 90:g})"><path class="line" d="{curve}"/>{head}</g>'
        f'<g transform="translate({label})">{text(0, 8.5, str(token), "m")}</g>'
    )


def right(film: Film, reading: Reading) -> str:
    x, trained = BESIDE, reading.trained_on
    hands = [unwound([-angle for angle in angles]) for angles in reading.phases]
    made = [panel(x, "the paper's model"), circle(film, x, hands)]
    kinds = ["faded"] * (trained - 1) + ["right" if good else "wrong" for good in judged(reading)]
    tile = 'y="330" width="84" height="96" rx="12"/>'
    for kind in ("faded", "right", "wrong"):
        shown = film.seen([each == kind for each in kinds])
        made.append(f'<rect class="{kind} {shown}" x="{x + 256}" {tile}')
    made.append(f'<rect class="paper" x="{x + 356}" {tile}')
    for name, middle, answers in (("said", 298, reading.printed), ("true", 398, reading.truth)):
        made.append(text(x + middle, 316, {"said": "says", "true": "is"}[name], "m"))
        for answer in range(len(reading.machine)):
            shown = film.seen([each == answer for each in answers])
            made.append(f'<g class="{shown}">{text(x + middle, 399, str(answer), name + " m")}</g>')
    shares = (
        f"{percent(reading.at_trained)} right at {trained}, "
        f"{percent(reading.beyond)} at {trained + 1}–{len(reading.tokens)}"
    )
    return "".join(made) + at_end(film, text(x + 34, FOOT, shares, "foot"))
