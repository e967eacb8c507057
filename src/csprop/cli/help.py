"""The text of `csprop COMMAND --help`, made from the docstrings of the command's dataclass."""

import inspect
import re
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from csprop.cli.options import Option

HELP, ALL = ("-h", "--help"), "--help-all"
WIDEST, NARROWEST = 80, 40
"""Columns of help; between the two it is as wide as the terminal."""
INDENT = 22
"""Columns for the names of options; a longer name has a line of its own."""
TITLES = {
    "": "Options",
    "model": "The model",
    "paper": "Its layers with --preset paper; z is the input of a block, h its state, printed: as in "
    "the paper",
    "rotor": "Its layers with --preset rotor",
    "router": "Its layers with --preset router",
    "recipe": "Training",
}
"""Headings of the options, by the field that they are a part of."""


def usages(verb: str, known: Sequence[Option], given: Sequence[str] = ()) -> list[str]:
    """Return the ways to write a command, without its options.

    Args:
        verb: the name of the command.
        known: its options.
        given: the ways to write it, where one of several arguments is needed; else there is one way.
    """
    needed = [each.heading for each in known if each.positional and each.required]
    needed += [each.heading for each in known if each.required and not each.positional]
    return [f"csprop {verb} {each}".strip() for each in given or [" ".join(needed)]]


def page(
    verb: str,
    arguments: type,
    known: Sequence[Option],
    usage: Sequence[str],
    short: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Return the help of a command.

    Args:
        verb: the name of the command.
        arguments: its dataclass. Of its docstring, a paragraph that begins with `Examples:` comes last.
        known: the options.
        usage: the ways to write the command.
        short: headings and the names of the options to show below each; without it, all are shown.
    """
    width = max(NARROWEST, min(WIDEST, shutil.get_terminal_size().columns))
    told = inspect.cleandoc(arguments.__doc__ or "").split("\n\n")
    examples = [each for each in told if each.startswith("Examples:")]
    starts = ("usage: ", *["       "] * len(usage))
    parts = [
        "\n".join(f"{start}{line} [options]" for start, line in zip(starts, usage, strict=False)),
        *(_filled(each, width) for each in told if each not in examples),
    ]
    for title, some in _groups(known, short).items():
        lines = [line for each in some for line in _entry(each, known, width)]
        parts.append("\n".join([_filled(f"{title}:", width), *lines]))
    for each in examples:
        parts.append("\n".join(["Examples:", *(f"  {line.strip()}" for line in each.splitlines()[1:])]))
    if short is not None:
        more = f"csprop {verb} {ALL} lists every option of the model and of training."
        parts.append(_filled(more, width))
    return "\n\n".join(parts)


def _groups(
    known: Sequence[Option], short: Mapping[str, Sequence[str]] | None
) -> dict[str, list[Option]]:
    """Return the options under each heading."""
    if short is not None:
        named = {each.name: each for each in known}
        return {title: [named[name] for name in names] for title, names in short.items()}
    groups: dict[str, list[Option]] = {}
    for each in sorted(known, key=lambda each: not each.positional):
        groups.setdefault(TITLES.get(each.group, each.group), []).append(each)
    return groups


def _entry(option: Option, known: Sequence[Option], width: int) -> Iterator[str]:
    """Yield the lines about one option."""
    indent = min(INDENT, width // 3)
    flags = {f"`{each.name}`": each.shown for each in known}
    text = re.sub(r"`\w+`", lambda match: flags.get(match[0], match[0]), option.text)
    text = f"{text} {_default(option)}"
    lines = _filled(text, width - indent).splitlines()
    heading = f"  {option.heading}"
    if len(heading) > indent - 2 or not lines:
        # A list of choices may be broken after its commas.
        spaced = heading.replace(",", ", ")
        yield from (
            textwrap.wrap(spaced, width, initial_indent="  ", subsequent_indent=" " * 6)
            if (len(heading) > width)
            else [heading]
        )
    else:
        yield f"{heading:<{indent}}{lines.pop(0)}"
    yield from (f"{'':{indent}}{line}" for line in lines)


def _default(option: Option) -> str:
    """Return the text about the default of an option."""
    if option.hint is not None or option.required:
        return "" if option.required else option.hint or ""
    value: Any = option.default
    if value is None or value in ((), ""):
        return ""
    if option.kind is bool:
        value = "on" if value else "off"
    return f"(default: {' '.join(value) if isinstance(value, tuple) else _plain(value)})"


def _plain(value: Any) -> str:
    return re.sub(r"[.]0$", "", str(value))


def _filled(text: str, width: int) -> str:
    """Return wrapped text; commands are not broken."""
    whole = re.sub("`(.+?)`", lambda match: match[1].replace(" ", "\xa0"), " ".join(text.split()))
    lines = textwrap.wrap(whole, width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\xa0", " ")
