"""`csprop example`: write one of the example files that come with csprop."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from csprop.cli import common
from csprop.cli.options import Arg
from csprop.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Args(common.Arguments):
    """Write an example file into the current directory; without a name, list the files.

    A file that exists and is different is not replaced.

    Examples:
        csprop example
        csprop example events.jsonl
        csprop example door.csv --out data/door.csv
    """

    name: Annotated[str | None, Arg("NAME", "", positional=True)] = None
    """The example, such as events.jsonl."""

    out: Annotated[Path | None, Arg("FILE", "(default: the name of the example)")] = None
    """The file to write."""


def run(args: Args) -> int:
    from csprop.data.shipped import EXAMPLES, example
    from csprop.files import replace

    if args.name is None:
        if args.out is not None:
            raise InputError(f"--out {args.out}: write the name of an example before it")
        if args.json:
            listed = [{"name": name, "what": what} for name, (what, _) in EXAMPLES.items()]
            common.show_json({"examples": listed})
        else:
            common.show_columns([(name, what) for name, (what, _) in EXAMPLES.items()])
            print("\ncsprop example NAME writes one of these files into the current directory.")
        return 0
    content, out = example(args.name).read_bytes(), args.out or Path(args.name)
    if out.is_dir():
        raise InputError(f"--out {out}: is a directory: write --out {out / args.name}")
    if not out.parent.is_dir():
        raise InputError(f"--out {out}: there is no directory {out.parent}: make it first")
    if not out.exists():
        replace(out, content)
    elif not out.is_file() or out.read_bytes() != content:
        raise InputError(f"{out}: exists and is another file: write --out with another name")
    what, then = EXAMPLES[args.name]
    if args.json:
        common.show_json({"name": args.name, "what": what, "file": str(out), "bytes": len(content)})
    else:
        print(f"{out}: {what}. Next:\n  csprop {then.format(shlex.quote(str(out)))}")
    return 0
