"""`csprop zoo`: list the certified runs that come with csprop, show one, or copy one."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from csprop.cli import common
from csprop.cli.options import Arg
from csprop.errors import InputError
from csprop.zoo.archive import PREFIX, Entry, index, name_of

WHY = "No proof exists: neither a finite machine nor counters solve such a task."


@dataclass(frozen=True, kw_only=True)
class Args(common.Arguments):
    """List the certified runs that come with csprop, or copy one to a directory.

    Every command that reads a run takes zoo:NAME, such as csprop predict zoo:parity. Its certificate is
    checked again each time, as for any run.

    Examples:
        csprop zoo
        echo 0110 | csprop predict zoo:parity
        csprop zoo group-A5 --out runs/a5
    """

    name: Annotated[str | None, Arg("NAME", "", positional=True)] = None
    """Show only this run."""

    out: Annotated[Path | None, Arg("DIR", "")] = None
    """Copy the run to this directory."""


def run(args: Args) -> int:
    if args.name is None:
        if args.out is not None:
            raise InputError("--out copies one run: write its name: csprop zoo parity --out DIR")
        _list(args.json)
        return 0
    name = name_of(args.name)
    (entry,) = (each for each in index() if each["name"] == name)
    if args.out is not None:
        _copy(name, args.out)
    if args.json:
        copied = {} if args.out is None else {"copy": str(args.out)}
        common.show_json({"run": f"{PREFIX}{name}", **entry, **copied})
    elif args.out is not None:
        print(
            f"{args.out}: a copy of {PREFIX}{name}. Its proof can be checked:\n"
            f"  csprop certify {shlex.quote(str(args.out))} --check"
        )
    else:
        _show(entry)
    return 0


def _list(as_json: bool) -> None:
    from csprop.tasks import catalogue

    runs, missing = index(), [task.name for task in catalogue() if not task.total]
    if as_json:
        common.show_json({"runs": runs, "no_proof": [{"name": name, "why": WHY} for name in missing]})
        return
    for verdict in dict.fromkeys(entry["verdict"] for entry in runs):
        alike = [entry for entry in runs if entry["verdict"] == verdict]
        counters = ["counters"] if any(entry["counters"] for entry in alike) else []
        columns = ["name", "states", *counters, "made", "preset", "seed"]
        rows = [[str(entry[column]) for column in columns] for entry in alike]
        common.show_table(columns, rows, title=f"{verdict.capitalize()}:")
    common.show_text(f"Not in it: {', '.join(missing)}. {WHY}")
    print("Any command that reads a run takes zoo:NAME: csprop predict zoo:parity")
    print("csprop zoo NAME --out DIR copies one, as a run directory.")


def _show(entry: Entry) -> None:
    from csprop.automata.names import describe_size, join_names
    from csprop.tasks import get

    task, name = get(entry["name"]), f"{PREFIX}{entry['name']}"
    options = "".join(f", {key} {value}" for key, value in entry["options"].items())
    print(f"{name}: {entry['verdict']}\n")
    common.show_facts(
        [
            ("question", task.description),
            ("tokens", join_names(task.vocab)),
            ("classes", join_names(task.classes)),
            ("automaton", describe_size(entry["states"], entry["counters"])),
            ("model", f"{entry['made']}, preset {entry['preset']}, seed {entry['seed']}{options}"),
        ]
    )
    print()
    common.show_next(
        f"predict {name}",
        f"certify {name} --check",
        f"automaton {name} --format c",
        f"explore {name}",
        f"zoo {entry['name']} --out runs/{entry['name']}",
    )


def _copy(name: str, out: Path) -> None:
    from csprop.files import one_writer
    from csprop.training.checkpoint import FILES, RunFolder, refuse_existing

    refuse_existing([out], resumable=False)
    source, folder = RunFolder(f"{PREFIX}{name}"), RunFolder(out)
    with one_writer(out), folder.draft() as draft:
        for each in filter(source.has, FILES):  # no other name is written
            draft.write(each, source.read(each))
