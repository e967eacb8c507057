"""The command line: runs a command, and turns errors into one sentence and an exit code.

Exit code 0: done. 1: the answer is no. 2: bad usage or input.
"""

import io
import os
import sys
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from csprop import __version__
from csprop.errors import InputError, did_you_mean

GROUPS = {
    "Start": {
        "demo": "show in a minute what csprop does, computed on this machine",
        "example": "write an example file to try the other commands with",
        "tasks": "list the built-in tasks",
        "zoo": "list the certified runs that come with csprop, or copy one",
        "learn": "find the machine behind labelled sequences, and wrong labels",
        "train": "train a model on a task or on your own data file",
        "compile": "write a machine into the weights of a model that is exact",
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
    "Study": {
        "compare": "train the layers of the field, or your own, on state tracking",
        "reproduce": "reproduce every table and figure of the paper",
        "bench": "measure speed and memory, next to nn.LSTM and others",
        "info": "show versions, backend, threads and CPU",
    },
}
"""The commands by purpose, each with what it does."""
LABORATORY = ("compare", "reproduce", "bench")
"""Commands of `csprop_lab`, which may not be installed."""
VERBS = {verb: what for group in GROUPS.values() for verb, what in group.items()}
WIDTH = max(map(len, VERBS))
USAGE = "\n".join(
    [
        "csprop finds the state machine behind labelled sequences, and proves it.",
        "",
        "Begin with one of these:",
        "  csprop demo             see what csprop does",
        "  csprop learn FILE       find the machine behind your own sequences",
        "  csprop train parity     train a model on a built-in task",
        *(
            line
            for title, group in GROUPS.items()
            for line in (
                "",
                f"{title}:",
                *(f"  {verb:<{WIDTH}}  {what}" for verb, what in group.items()),
            )
        ),
        "",
        "A run is a directory that learn, train and compile write, such as runs/parity.",
        "csprop COMMAND --help explains a command.",
    ]
)


def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit code.

    Args:
        argv: the command and its arguments; without it, those of the process.
    """
    argv = sys.argv[1:] if argv is None else argv
    _mend_streams()
    # Models this small gain little from a second thread and lose much where cores are shared.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    verb = argv[0] if argv and argv[0] in VERBS else ""
    name = f"csprop {verb}".strip()
    try:
        code = _run(verb, argv)
        sys.stdout.flush()  # a reader that has gone away must be noticed here
        return code
    except InputError as error:
        return _say(f"{name}: {error}", 2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # as if killed by SIGPIPE
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _say(f"{name}: {where}{error.strerror or error}", 2)
    except MemoryError:
        return _say(f"{name}: there is not enough memory", 2)
    except RuntimeError as error:
        if "can't allocate memory" not in str(error):  # as torch says it
            raise
        return _say(f"{name}: there is not enough memory", 2)
    except KeyboardInterrupt:
        hint = "; add --resume to the same command to continue" if verb == "train" else ""
        return _say(f"{name}: interrupted{hint}", 130)


def _run(verb: str, argv: list[str]) -> int:
    if verb:
        module = _command(verb)
        try:
            return module.run(module.parse(argv[1:]))
        except InputError as error:
            raise InputError(_as_typed(str(error), module.Args)) from None
    if not argv or argv[0] in ("-h", "--help") or argv == ["help"]:
        print(USAGE)
        return 0
    if argv[0] in ("-V", "--version"):
        print(f"csprop {__version__}")
        return 0
    if argv[0] == "help":
        return main([argv[1], "--help"])
    hint = did_you_mean(argv[0], VERBS) or f"write one of {', '.join(VERBS)}"
    raise InputError(f"there is no command {argv[0]!r}: {hint}")


def _command(verb: str) -> Any:
    """The module of a command: csprop's own, or one that another package adds by an entry point."""
    if verb not in LABORATORY:
        return import_module(f"csprop.cli.{verb}")
    (found,) = entry_points(group="csprop.commands", name=verb) or (None,)
    if found is None:
        raise InputError("it is a part of the laboratory: python -m pip install 'csprop[lab]'")
    return found.load()


def _as_typed(sentence: str, arguments: type) -> str:
    """A complaint about a field of the configuration as one about the option that sets it."""
    from csprop.cli.options import as_typed, options
    from csprop.training.checkpoint import CONFIG

    of_a_file = f"{CONFIG}: " in sentence  # what a run stores was not typed
    return sentence if of_a_file else as_typed(sentence, options(arguments))


def _mend_streams() -> None:
    """Discard output to a closed stream; escape characters that an encoding cannot represent."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _say(text: str, code: int) -> int:
    from csprop.cli.common import sentence

    print(sentence(text), file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
