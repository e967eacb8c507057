"""The command line: runs a command, and turns errors into one sentence and an exit code.

Exit code 0: done. 1: the answer is no. 2: bad usage or input.

A command is a module with a dataclass `Args` and a function `run(args)`; `parse(argv)` is optional. The
commands of csprop are in this package; any installed package adds one by an entry point.
"""

import io
import os
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from csprop import __version__
from csprop.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUPS = {
    "Start": {
        "demo": "show in a minute what csprop does, computed on this machine",
        "example": "write an example file to try the other commands with",
        "tasks": "list the built-in tasks",
        "zoo": "list the certified runs that come with csprop, or copy one",
        "learn": "find the machine behind labelled sequences, and wrong labels",
        "train": "train a model on a task or on your own data file",
        "compile": "write a machine into the weights of a model that is exact",
        "info": "show versions, backend, threads and CPU",
    },
    "Use a run": {
        "predict": "classify sequences: one per line in, one class per line out",
        "eval": "measure the accuracy of a run, by length or over every input",
        "certify": "lock a run's model and prove it correct at every length",
        "automaton": "draw a certified run, or export it as C, Python, JSON, Graphviz",
        "export": "write a run's model to an ONNX file, for other runtimes",
        "report": "write a page about runs: curves, tables, certificates, explorer",
        "explore": "step through a model in the browser",
    },
}
VERBS = {verb: what for group in GROUPS.values() for verb, what in group.items()}
LABORATORY = ("compare", "reproduce", "bench")
"""Commands of the package csprop-lab, which may not be installed."""


def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit code. By default it takes the arguments of the process."""
    argv = sys.argv[1:] if argv is None else argv
    _mend_streams()
    # Models this small gain little from a second thread and lose much where cores are shared.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    verb = argv[0] if argv else "--help"
    known = verb in VERBS or verb in LABORATORY
    known = known or (verb != "help" and verb[:1] != "-" and verb in added_commands())
    name = f"csprop {verb}" if known else "csprop"
    try:
        code = _run_command(verb, argv[1:]) if known else _run_without_command(argv)
        sys.stdout.flush()  # a reader that has gone away must be noticed here
        return code
    except InputError as error:
        return _fail(f"{name}: {error}")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # as if killed by SIGPIPE
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{name}: {where}{error.strerror or error}")
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "can't allocate memory" not in str(error):
            raise  # otherwise it is torch that lacks memory
        return _fail(f"{name}: there is not enough memory")
    except KeyboardInterrupt:
        hint = "; add --resume to the same command to continue" if name == "csprop train" else ""
        return _fail(f"{name}: interrupted{hint}", 130)


def _run_command(verb: str, argv: list[str]) -> int:
    module = load_command(verb)
    try:
        return module.run(parse(verb, module, argv))
    except InputError as error:
        from csprop.cli.options import name_option

        groups = getattr(module, "GROUPS", {}).values()
        raise InputError(name_option(error, [module.Args, *groups])) from None


def parse(verb: str, module: Any, argv: list[str]) -> Any:
    """Parse the arguments of a command: by its own function `parse`, if it has one."""
    if hasattr(module, "parse"):
        return module.parse(argv)
    from csprop.cli import options

    return module.Args(**options.parse(module.Args, verb, argv))


def _run_without_command(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help") or argv == ["help"]:
        print(usage())
        return 0
    if argv[0] in ("-V", "--version"):
        print(f"csprop {__version__}")
        return 0
    if argv[0] == "help":
        return main([argv[1], "--help"])
    verbs = [*VERBS, *added_commands()]
    hint = did_you_mean(argv[0], verbs) or f"choose from {', '.join(verbs)}"
    raise InputError(f"there is no command {argv[0]!r}: {hint}")


def load_command(verb: str) -> Any:
    """Import the module of a command.

    Raises:
        InputError: the package that adds the command is not installed, or cannot be imported.
    """
    if verb in VERBS:
        return import_module(f"csprop.cli.{verb}")
    added = added_commands()
    if verb not in added:
        raise InputError("it is a part of the laboratory: python -m pip install 'csprop[lab]'")
    try:
        return added[verb].load()
    except (ImportError, AttributeError) as error:
        raise InputError(f"{added[verb].value} cannot be imported: {error}") from None


def added_commands() -> "dict[str, EntryPoint]":
    """Return the commands that other packages add, by name."""
    from importlib.metadata import entry_points

    return {each.name: each for each in entry_points(group="csprop.commands") if each.name not in VERBS}


def usage() -> str:
    """Return the text of `csprop --help`."""
    groups = {title: dict(group) for title, group in GROUPS.items()}
    for verb, each in sorted(added_commands().items()):
        title = f"From {each.dist.name}" if each.dist else "From other packages"
        groups.setdefault(title, {})[verb] = _first_line(each)
    width = max(len(verb) for group in groups.values() for verb in group)
    lines = [
        "csprop finds the state machine behind labelled sequences, and proves it.",
        "",
        "Begin with one of these:",
        "  csprop demo             see what csprop does",
        "  csprop learn FILE       find the machine behind your own sequences",
        "  csprop train parity     train a model on a built-in task",
    ]
    for title, group in groups.items():
        lines += ["", f"{title}:"]
        lines += [f"  {verb:<{width}}  {what}"[:80].rstrip() for verb, what in group.items()]
    lines += ["", "A run is a directory that learn, train and compile write, such as runs/parity."]
    return "\n".join([*lines, "csprop COMMAND --help explains a command."])


def _first_line(command: "EntryPoint") -> str:
    """Return the first line of a command's docstring, from its source: importing it may take long."""
    import ast
    from importlib.machinery import PathFinder

    package, *names = command.module.split(".")
    try:
        spec: Any = find_spec(package)
        for name in names:
            spec = PathFinder.find_spec(f"{spec.name}.{name}", spec.submodule_search_locations)
        text = ast.get_docstring(ast.parse(spec.loader.get_source(spec.name))) or ""
    except (ImportError, AttributeError, SyntaxError, TypeError, ValueError):
        return ""
    return text.partition("\n")[0].removeprefix(f"`csprop {command.name}`: ").rstrip(".")


def _mend_streams() -> None:
    """Discard output to a closed stream; escape characters that an encoding cannot represent."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _fail(text: str, code: int = 2) -> int:
    from csprop.cli.common import sentence

    print(sentence(text), file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
