"""`csprop report`: a page about runs, with the models in it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from csprop.cli import common
from csprop.cli.options import Arg
from csprop.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Args(common.Arguments):
    """Write one HTML file about runs, which needs no server and no network.

    It has curves, accuracy by length, tables, certificates and the explorer.

    Examples:
        csprop report runs/parity --out parity.html
        csprop report runs/* --out runs.html
    """

    runs: common.Runs
    """Run directories, directories that hold runs, or runs of `csprop zoo`, such as zoo:parity."""

    out: Annotated[Path, Arg("FILE.html")]
    """The file to write."""


def run(args: Args) -> int:
    from csprop.files import replace

    if args.out.suffix != ".html" or (args.out.exists() and not args.out.is_file()):
        raise InputError(f"--out {args.out}: write the name of a file that ends in .html")
    if not args.out.parent.is_dir():
        raise InputError(f"--out {args.out}: there is no directory {args.out.parent}: make it first")
    common.check_runs(args.runs)
    from csprop.report.runs import page

    content = page(args.runs, say=common.say).encode()
    replace(args.out.resolve(), content)
    if args.json:
        runs = [str(path) for path in args.runs]
        common.show_json({"runs": runs, "page": str(args.out), "bytes": len(content)})
    else:
        print(f"{args.out}: {len(content) / 1000:,.0f} kB; open it in a browser")
    return 0
