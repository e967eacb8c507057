"""The options of a command, which are the fields of a dataclass: parsing them, and `--help`."""

import ast
import dataclasses
import inspect
import re
import shutil
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import MISSING, dataclass
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from csprop.errors import InputError, did_you_mean

HELP, ALL = ("-h", "--help"), "--help-all"
INDENT = 22
"""Columns for the names of options in help; a longer name has a line of its own."""
METAVARS = {int: "N", float: "NUMBER", Path: "PATH", str: "TEXT"}
VALUES = {int: "a whole number", float: "a number"}
"""Values to ask for in error messages; for any other type, a name."""


@dataclass(frozen=True)
class Arg:
    """More about an option, in its annotation: `Annotated[Path, Arg("RUN", positional=True)]`.

    A switch with an `Arg`, such as `common.Flag`, has no second form that begins with --no-.
    """

    metavar: str = ""
    """Placeholder for the value in help; by default, the choices, or a word for the type."""
    hint: str | None = None
    """Text about the default in help; None shows the default itself."""
    positional: bool = False
    """True if the value is given without a flag."""


@dataclass(frozen=True)
class Option:
    """One argument of a command."""

    name: str
    kind: type
    choices: tuple[str, ...]
    several: bool
    arg: Arg
    flags: tuple[str, ...]
    """The flag; a switch may have a second one, which begins with --no-."""
    default: Any
    text: str
    title: str
    """The heading above the option in help."""

    @property
    def required(self) -> bool:
        return self.default is MISSING

    @property
    def label(self) -> str:
        """The name of the option in messages: a flag, or the word for an argument without one."""
        return self.arg.metavar.rstrip(".") if self.arg.positional else self.flags[0]

    @property
    def heading(self) -> str:
        """The option as the user types it, for help."""
        if self.kind is bool:
            return ", ".join(self.flags)
        return self.arg.metavar if self.arg.positional else f"{self.flags[0]} {self.arg.metavar}"


def options(arguments: type, title: str = "Options") -> list[Option]:
    """Return the options of a dataclass: positional ones, then its own, then those of its bases.

    The docstring below a field is the text of the option.
    """
    hints, texts = get_type_hints(arguments, include_extras=True), _read_docstrings(arguments)
    known = [
        _make_option(each.name, hints[each.name], each.default, texts.get(each.name, ""), title)
        for each in dataclasses.fields(arguments)
        if each.metadata.get("flag", True)
    ]
    own = [inspect.get_annotations(each) for each in arguments.__mro__]
    depth = {name: number for number, names in reversed([*enumerate(own)]) for name in names}
    return sorted(known, key=lambda each: -1 if each.arg.positional else depth[each.name])


def _make_option(name: str, hint: Any, default: Any, text: str, title: str) -> Option:
    extras = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    hint = get_args(hint)[0] if extras else hint
    if NoneType in get_args(hint):
        hint = get_args(hint)[0]
    if several := get_origin(hint) is tuple:
        hint = get_args(hint)[0]
    choices = get_args(hint) if get_origin(hint) is Literal else ()
    kind, flag = str if choices else hint, f"--{name.replace('_', '-')}"
    arg = next((each for each in extras if isinstance(each, Arg)), None)
    flags = (flag, f"--no-{flag[2:]}") if kind is bool and arg is None else (flag,)
    metavar = f"{{{','.join(choices)}}}" if choices else METAVARS.get(kind, "")
    arg = arg or Arg()
    arg = dataclasses.replace(arg, metavar=arg.metavar or metavar)
    return Option(name, kind, choices, several, arg, flags, default, text, title)


def _read_docstrings(cls: type) -> dict[str, str]:
    """Return the docstring below each field of a class and of its base classes."""
    texts = {}
    for each in reversed([base for base in cls.__mro__ if dataclasses.is_dataclass(base)]):
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        assert isinstance(tree, ast.ClassDef)
        for field, below in zip(tree.body, tree.body[1:], strict=False):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    texts[name] = " ".join(text.split())
    return texts


def parse(
    arguments: type,
    verb: str,
    argv: Sequence[str],
    *,
    groups: Mapping[str, type] | None = None,
    defaults: Callable[[dict[str, Any]], Mapping[str, Any]] = lambda values: {},
    usage: Sequence[str] = (),
    short: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """Return the values that arguments give to the options of a command, by name.

    Args:
        arguments: the dataclass of the command; its docstrings are the text of `--help`.
        verb: the name of the command.
        argv: the arguments that follow the name.
        groups: more dataclasses of options, by their heading in help.
        defaults: from the values, the defaults that `--help` shows instead of those of the classes.
        usage: the ways to write the command, where one of several arguments is needed.
        short: the options that `--help` shows, by heading; `--help-all` lists all.

    Raises:
        InputError: an argument is unknown, malformed or missing.
        SystemExit: help was asked for, and has been printed.
    """
    known = options(arguments)
    for title, group in (groups or {}).items():
        known += options(group, title)
    if not usage:
        needed = [each for each in known if each.arg.positional or each.required]
        usage = [" ".join(each.heading if each.required else f"[{each.heading}]" for each in needed)]
    usage = [f"csprop {verb} {each}".strip() for each in usage]
    words = [each for each in argv if each not in (*HELP, ALL)]
    asked, values = len(words) < len(argv), {}
    with suppress(InputError) if asked else nullcontext():
        values = _read(verb, known, words, usage)
    if asked:
        shown = {} if short is None or ALL in argv else short
        print(_write_help(verb, arguments, known, usage, shown, defaults(values)))
        raise SystemExit(0)
    return values


def _read(
    verb: str, known: Sequence[Option], argv: Sequence[str], usage: Iterable[str]
) -> dict[str, Any]:
    """Return the values of options; after -- nothing is an option."""
    flags = {flag: option for option in known for flag in option.flags if not option.arg.positional}
    end = argv.index("--") if "--" in argv else len(argv)
    words, free, values = list(argv[:end]), [], {}
    while words:
        word = words.pop(0)
        if not _is_flag(word):
            free.append(word)
            continue
        flag, equals, text = word.partition("=")
        flag = flag.replace("_", "-")
        if flag not in flags:
            near = did_you_mean(flag, flags) or f"csprop {verb} --help lists them"
            raise InputError(f"there is no option {flag}: {near}")
        option = flags[flag]
        if option.kind is bool:
            if equals:
                raise InputError(f"{flag} takes no value: leave out ={text}")
            values[option.name] = flag == option.flags[0]
        elif equals or (words and not _is_flag(words[0])):
            values[option.name] = _convert(option, text if equals else words.pop(0))
        else:
            raise InputError(f"{flag} lacks its value: write {option.heading}")
    free += argv[end + 1 :]
    for option in known:
        if option.arg.positional and free:
            taken, free = (free, []) if option.several else (free[:1], free[1:])
            converted = tuple(_convert(option, word) for word in taken)
            values[option.name] = converted if option.several else converted[0]
    if free:
        raise InputError(f"{free[0]!r} is one argument too many: write {' or '.join(usage)}")
    for option in known:
        if option.required and option.name not in values:
            raise InputError(f"{option.label} is missing: write {' or '.join(usage)}")
    return values


def _is_flag(word: str) -> bool:
    """Return True for a flag; a negative number is a value."""
    return re.match(r"-[^\d.]", word) is not None and word.lower() not in ("-inf", "-nan")


def _convert(option: Option, text: str) -> Any:
    wanted = VALUES.get(option.kind, "a name")
    if not text:
        raise InputError(f"{option.label} is empty: write {wanted} after it")
    if option.choices and text not in option.choices:
        near = did_you_mean(text, option.choices)
        choices = " or ".join(", ".join(option.choices).rsplit(", ", 1))
        raise InputError(f"{option.label} {text}: {f'{near} Write' if near else 'write'} {choices}")
    try:
        return option.kind(text)
    except ValueError:
        raise InputError(f"{option.label} {text}: write {wanted}") from None


def name_option(error: InputError, arguments: Iterable[type]) -> str:
    """Return the sentence of an error, with the option that it is about as the user writes it."""
    for option in (option for each in arguments for option in options(each)):
        if option.name == error.field:
            value: Any = error.value
            text = option.flags[-1 if value is False else 0] if option.kind is bool else option.label
            if value is not None and option.kind is not bool:
                text += f" {value:g}" if isinstance(value, float) else f" {value}"
            return f"{text}: {error.message}"
    return str(error)


def _write_help(
    verb: str,
    arguments: type,
    known: Sequence[Option],
    usage: Sequence[str],
    short: Mapping[str, Sequence[str]],
    defaults: Mapping[str, Any],
) -> str:
    """Return the help of a command; the examples of its docstring come last."""
    width = max(40, min(80, shutil.get_terminal_size().columns))
    text, _, examples = inspect.cleandoc(arguments.__doc__ or "").partition("\n\nExamples:\n")
    parts = ["usage: " + "\n       ".join(f"{line} [options]" for line in usage)]
    parts += [_fill(each, width) for each in text.split("\n\n")]
    sections: dict[str, list[Option]] = {}
    if short:
        by_name = {each.name: each for each in known}
        sections = {title: [by_name[name] for name in names] for title, names in short.items()}
    else:
        for each in known:
            sections.setdefault(each.title, []).append(each)
    labels = {f"`{each.name}`": each.label for each in known}
    for title, some in sections.items():
        lines = [_fill(f"{title}:", width)]
        for each in some:
            said = re.sub(r"`\w+`", lambda match: labels.get(match[0], match[0]), each.text)
            said += f" {_describe_default(each, defaults.get(each.name, each.default))}"
            heading, column = f"  {each.heading}", " " * INDENT
            beside = _fill(said, width, column)
            short_enough = len(heading) <= INDENT - 2
            lines.append(heading.ljust(INDENT) + beside[INDENT:] if short_enough else heading)
            lines += [] if short_enough else [beside]
        parts.append("\n".join(lines))
    if examples:
        parts.append("Examples:\n" + textwrap.indent(textwrap.dedent(examples), "  "))
    if short:
        more = f"`csprop {verb} {ALL}` lists every option of the model and of training."
        parts.append(_fill(more, width))
    return "\n\n".join(parts)


def _describe_default(option: Option, value: Any) -> str:
    if option.arg.hint is not None:
        return option.arg.hint
    if value is MISSING or value is None or value in ((), ""):
        return ""
    if option.kind is bool:
        value = "on" if value else "off"
    return f"(default: {re.sub(r'[.]0$', '', str(value))})"


def _fill(text: str, width: int, indent: str = "") -> str:
    """Return wrapped text; a command in backticks is not broken."""
    whole = re.sub("`(.+?)`", lambda match: match[1].replace(" ", "\xa0"), " ".join(text.split()))
    lines = textwrap.wrap(whole, width - len(indent), break_long_words=False, break_on_hyphens=False)
    return textwrap.indent("\n".join(lines).replace("\xa0", " "), indent)
