"""The options that a command's dataclass declares, and the parser of arguments."""

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from csprop.errors import InputError, did_you_mean

A = TypeVar("A")
MISSING = dataclasses.MISSING
NAMES = {int: "N", float: "NUMBER", Path: "PATH", str: "TEXT"}
"""Placeholders for values in help, unless the option has its own."""
ASKED = {int: "a whole number", float: "a number"}
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
    """One argument of a command: a field of its dataclass, or of one that is a field of it."""

    name: str
    kind: type
    choices: tuple[str, ...]
    metavar: str
    text: str
    hint: str | None
    positional: bool
    several: bool
    paired: bool
    """True if a switch has a second form, which begins with --no-."""
    default: Any
    group: str
    """The field that the option is a part of; "" for one of the command itself."""

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    @property
    def shown(self) -> str:
        """The option as complaints name it: a flag, or the word for an argument without one."""
        return self.metavar.rstrip(".") if self.positional else self.flag

    @property
    def flags(self) -> tuple[str, ...]:
        return (self.flag, f"--no-{self.flag[2:]}") if self.paired else (self.flag,)

    def write(self, value: Any) -> str:
        """Return the option with a value, as it is typed."""
        if self.kind is bool:
            return self.flags[-1 if value is False else 0]
        if value is None:
            return self.shown
        return f"{self.shown} {value:g}" if isinstance(value, float) else f"{self.shown} {value}"

    @property
    def required(self) -> bool:
        return self.default is MISSING

    @property
    def heading(self) -> str:
        """The option as the user types it, for help."""
        if self.positional:
            return self.metavar
        return ", ".join(self.flags) if self.kind is bool else f"{self.flag} {self.metavar}"


def options(arguments: type, default: Any = None, group: str = "") -> Iterator[Option]:
    """Yield the options of a dataclass, in the order of its fields.

    Args:
        arguments: the dataclass; the docstring of each field is the text of its option.
        default: an instance with the default values; without it, the defaults of the class.
        group: the field that holds the dataclass, if it is a part of another.
    """
    hints, texts = get_type_hints(arguments, include_extras=True), field_docs(arguments)
    own = vars(arguments).get("__annotations__", {})  # those that it inherits come last
    for field in sorted(dataclasses.fields(arguments), key=lambda each: each.name not in own):
        if not field.metadata.get("flag", True):
            continue
        hint, *told = _unwrapped(hints[field.name])
        value = field.default if default is None else getattr(default, field.name)
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            yield from options(hint, None if default is None else value, field.name)
            continue
        several = get_origin(hint) is tuple
        hint = get_args(hint)[0] if several else hint
        choices = get_args(hint) if get_origin(hint) is Literal else ()
        kind = str if choices else hint
        said = next((each for each in told if isinstance(each, Arg)), None)
        chosen = f"{{{','.join(choices)}}}" if choices else NAMES.get(kind, "")
        yield Option(
            name=field.name,
            kind=kind,
            choices=choices,
            metavar=(said.metavar if said else "") or chosen,
            text=texts.get(field.name, ""),
            hint=said.hint if said else None,
            positional=said is not None and said.positional,
            several=several,
            paired=kind is bool and said is None,
            default=value,
            group=group,
        )


def _unwrapped(hint: Any) -> list[Any]:
    """Return a type without `Annotated` and None, followed by its annotations."""
    told = list(get_args(hint)[1:]) if get_origin(hint) is Annotated else []
    hint = get_args(hint)[0] if told else hint
    given = [each for each in get_args(hint) if each is not NoneType]
    return [given[0] if NoneType in get_args(hint) else hint, *told]


def field_docs(cls: type) -> dict[str, str]:
    """Return the docstring below each field of a class and of its base classes."""
    found = {}
    for each in reversed([base for base in cls.__mro__ if dataclasses.is_dataclass(base)]):
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        assert isinstance(tree, ast.ClassDef)
        for field, below in zip(tree.body, tree.body[1:], strict=False):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                    value=ast.Constant(value=str(text))
                ):
                    found[name] = " ".join(text.split())
    return found


def parsed(verb: str, known: Sequence[Option], argv: Sequence[str], usage: str) -> dict[str, Any]:
    """Return the values that arguments give to options, by the name of the option.

    Args:
        verb: the name of the command.
        known: its options.
        argv: its arguments.
        usage: the command as it is typed, for messages about missing arguments.

    Raises:
        InputError: an argument is unknown, malformed, missing or superfluous; the sentence names it.
    """
    flags = {flag: option for option in known for flag in option.flags if not option.positional}
    places = [option for option in known if option.positional]
    given: dict[str, Any] = {}
    words, ended = list(argv), False
    while words:
        word = words.pop(0)
        if word == "--" and not ended:  # from here on nothing is an option
            ended = True
            continue
        if ended or not _is_flag(word):
            if not places:
                raise InputError(f"{word!r} is one argument too many: write {usage}")
            option = places[0] if places[0].several else places.pop(0)
            value = _value(option, word)
            given[option.name] = (*given.get(option.name, ()), value) if option.several else value
            continue
        flag, equals, text = word.partition("=")
        option = flags.get(flag.replace("_", "-"))
        if option is None:
            near = did_you_mean(flag, flags)
            raise InputError(f"there is no option {flag}: {near or f'csprop {verb} --help lists them'}")
        if option.kind is bool:
            if equals:
                raise InputError(f"{flag} takes no value: leave out ={text}")
            given[option.name] = flag.replace("_", "-") == option.flag
            continue
        if not equals and (not words or _is_flag(words[0])):
            raise InputError(f"{flag} lacks its value: write {flag} {option.metavar}")
        value = _value(option, text if equals else words.pop(0))
        if option.several:  # as many words as are choices; the next one may be the task
            more = list(takewhile(option.choices.__contains__, words))
            value, words = (value, *more), words[len(more) :]
        given[option.name] = value
    for option in known:
        if option.required and option.name not in given:
            raise InputError(f"{option.shown} is missing: write {usage}")
    return given


def filled(arguments: type[A], known: Iterable[Option], given: dict[str, Any], default: A | None) -> A:
    """Return the dataclass with the given values; the others come from `default`, or from the class.

    Raises:
        InputError: the values do not fit, as the dataclass or a part of it says.
    """
    own, parts = {}, {}
    for option in known:
        if option.name in given:
            part = parts.setdefault(option.group, {}) if option.group else own
            part[option.name] = given[option.name]
    if default is None:
        return arguments(**own)
    inner = {name: dataclasses.replace(getattr(default, name), **part) for name, part in parts.items()}
    return dataclasses.replace(default, **own, **inner)  # pyright: ignore[reportArgumentType]


def _is_flag(word: str) -> bool:
    """Return True for a flag; a negative number is a value."""
    return re.match(r"-[^\d.]", word) is not None and word.lower() not in ("-inf", "-nan")


def _value(option: Option, text: str) -> Any:
    asked = ASKED.get(option.kind, "a name")
    if not text:
        raise InputError(f"{option.shown} is empty: write {asked} after it")
    if option.choices and text not in option.choices:
        near = did_you_mean(text, option.choices)
        choices = " or ".join(", ".join(option.choices).rsplit(", ", 1))
        raise InputError(f"{option.shown} {text}: {f'{near} Write' if near else 'write'} {choices}")
    try:
        return option.kind(text)
    except ValueError:
        raise InputError(f"{option.shown} {text}: write {asked}") from None


def name_option(error: InputError, arguments: type) -> str:
    """Return the sentence of an error, with the option that it is about as the user writes it."""
    for option in options(arguments):
        if option.name == error.field:
            return f"{option.write(error.value)}: {error.message}"
    return str(error)
