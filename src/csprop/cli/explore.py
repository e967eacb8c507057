"""`csprop explore`: step through a run's model in the browser."""

import tempfile
import webbrowser
from dataclasses import dataclass
from pathlib import Path

from csprop.cli import common


@dataclass(frozen=True, kw_only=True)
class Args(common.Arguments):
    """Write a page in which the model runs, and open it in the browser.

    Two runs of one task are shown side by side.

    Examples:
        csprop explore runs/parity
        csprop explore runs/parity --no-open
    """

    runs: common.Runs
    """Run directories, directories that hold runs, or runs of `csprop zoo`, such as zoo:parity."""

    no_open: common.Flag = False
    """Print the path of the page without opening it."""


def run(args: Args) -> int:
    common.check_runs(args.runs)
    from csprop.report.runs import page

    content = page(args.runs, measured=False)
    with tempfile.NamedTemporaryFile(prefix="csprop-", suffix=".html", delete=False) as file:
        file.write(content.encode())
    path = Path(file.name)
    opened = not args.no_open and webbrowser.open(path.as_uri())
    if args.json:
        runs = [str(each) for each in args.runs]
        common.show_json({"runs": runs, "page": str(path), "opened": opened})
    else:
        print(path)
        if not opened and not args.no_open:
            common.say("no browser could be started: open the file by hand")
    return 0
