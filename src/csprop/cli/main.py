"""`csprop VERB …`: finds the verb, and turns what goes wrong into one sentence and an exit code.

Exit 0: done. 1: the answer is no. 2: bad usage or input.
"""

import difflib
import os
import sys
from importlib import import_module

from csprop import __version__
from csprop.errors import InputError

VERBS = {
    "train": "train a model on a task or on a file of your own",
    "eval": "accuracy of a run by length, or over every input",
    "predict": "one sequence a line in, one prediction a line out",
    "tasks": "the tasks that come with csprop",
    "info": "versions, backend, threads and CPU",
    "demo": "train the three tasks of the paper and show a table",
}

USAGE = "\n".join(
    [
        "usage: csprop VERB [options]     (csprop VERB --help shows a verb's options)",
        "",
        *(f"  {verb:<9} {what}" for verb, what in VERBS.items()),
        "",
        "Start with: csprop train parity",
    ]
)


def main(argv: list[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if not argv:
        print(USAGE, file=sys.stderr)
        return 2
    if argv[0] in ("-h", "--help"):
        print(USAGE)
        return 0
    if argv[0] in ("-V", "--version"):
        print(f"csprop {__version__}")
        return 0
    # Models this small gain little from a second thread and lose much where cores are shared.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    verb = argv[0]
    if verb not in VERBS:
        near = difflib.get_close_matches(verb, VERBS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"write one of {', '.join(VERBS)}"
        return _say(f"csprop: there is no verb {verb!r}: {hint}", 2)
    module = import_module(f"csprop.cli.{verb}")
    try:
        code = module.run(module.parse(argv[1:]))
        sys.stdout.flush()  # a reader that has gone away must be noticed here
        return code
    except InputError as error:
        return _say(f"csprop {verb}: {error}", 2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # as if killed by SIGPIPE
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _say(f"csprop {verb}: {where}{error.strerror}", 2)
    except KeyboardInterrupt:
        hint = "; the same command with --resume goes on" if verb == "train" else ""
        return _say(f"csprop {verb}: interrupted{hint}", 130)


def _say(sentence: str, code: int) -> int:
    print(sentence, file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
