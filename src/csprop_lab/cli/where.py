"""What the commands share: the options on where jobs run, and lists of names."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from csprop.cli import common
from csprop.cli.options import Arg
from csprop.errors import InputError


@dataclass(frozen=True)
class Where(common.Arguments):
    """The place where the jobs of a study run."""

    workers: Annotated[int | None, Arg("N", "(default: one per core)")] = None
    """Number of processes that share the work."""

    engine: Literal["local", "ray"] = "local"
    """Run on this machine or on a Ray cluster."""

    address: Annotated[str | None, Arg("HOST:PORT", "(default: start one on this machine)")] = None
    """Address of a running Ray cluster, such as 10.0.0.1:6379."""


def engine(args: Where) -> Callable[[Path], Any]:
    """Return a function from a folder for runs in progress to one that runs groups of jobs."""
    if args.workers is not None and not 1 <= args.workers <= 1024:
        raise InputError(f"--workers {args.workers}: write 1 to 1024")
    if args.address is not None and args.engine != "ray":
        raise InputError("--address is the address of a Ray cluster: add --engine ray")
    if args.workers is not None and args.engine == "ray":
        raise InputError("--workers counts processes on this machine: leave it out with --engine ray")

    def on(unfinished: Path) -> Any:
        from csprop.training.workers import cores
        from csprop_lab.study import engine

        if args.engine == "ray":
            return lambda work: engine.ray(work, args.address)
        return lambda work: engine.local(work, args.workers or cores(), unfinished)

    return on


def split_names(text: str, option: str) -> list[str]:
    """Return the names in an option, which have commas between them."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise InputError(f"--{option} {text}: write names with commas between them")
    return names


def choose(only: str | None, what: str, known: Collection[str]) -> list[str] | None:
    """Return the names in --only, if it is given; refuse one that is not known."""
    if only is None:
        return None
    for name in (names := split_names(only, "only")):
        if name not in known:
            raise InputError(
                f"--only {only}: there is no {what} {name!r}: choose from {', '.join(known)}"
            )
    return names
