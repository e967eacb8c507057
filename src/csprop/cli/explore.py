"""`csprop explore`: step through a run's model in the browser."""

import tempfile
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from csprop.cli import common
from csprop.cli.options import Arg


@dataclass(frozen=True, kw_only=True)
class Args(common.Arguments):
    """Write a page in which the model runs, and open it in the browser.

    Two runs of one task are shown side by side.

    Examples:
        csprop explore runs/parity
        csprop explore runs/parity --no-open
    """

    runs: Annotated[
        tuple[Path, ...],
        Arg("RUN...", positional=True),
    ]
    """Run directories, directories that hold runs, or runs of `csprop zoo`, such as zoo:parity."""

    no_open: common.Flag = False
    """Print the path of the page without opening it."""


def run(args: Args) -> int:
    from csprop.files import replace

    for path in args.runs:
        if not any(path.glob("*/config.json")):  # or it holds runs
            common.check_run(path)
    from csprop.report import runs

    content = runs.page(args.runs, measured=False)
    path = Path(tempfile.mkdtemp(prefix="csprop-")) / "explorer.html"
    try:
        replace(path, content.encode())
    except OSError:
        path.parent.rmdir()
        raise
    opened = not args.no_open and webbrowser.open(path.as_uri())
    if args.json:
        common.show_json(
            {"runs": [str(each) for each in args.runs], "page": str(path), "opened": opened}
        )
    else:
        print(path)
        if not opened and not args.no_open:
            common.say("no browser could be started: open the file by hand")
    return 0
