"""`csprop info`: versions, backend, threads and CPU."""

from dataclasses import dataclass
from typing import Any

from csprop import __version__
from csprop.cli import common


@dataclass(frozen=True, kw_only=True)
class Args(common.Arguments):
    """Show versions, backend, threads and CPU.

    Examples:
        csprop info
        csprop info --version
    """

    version: common.Flag = False
    """Show the version of csprop only."""


def run(args: Args) -> int:
    facts = {"csprop": __version__} if args.version else _collect()
    if args.json:
        common.show_json(facts)
    elif args.version:
        print(f"csprop {__version__}")
    else:
        common.show_facts((name, str(value)) for name, value in facts.items())
    return 0


def _collect() -> dict[str, Any]:
    from csprop.ops import gpu, native
    from csprop.training.config import environment

    facts = environment() | {"kernel": native.WHY_NOT or f"compiled, {native.TARGET} code"}
    facts["gpu"] = f"triton is {gpu.why_not()}" if gpu.why_not() else "triton"
    whole = "one call of the kernel; csprop train says if not, and why"
    return facts | {"step": whole if facts["backend"] == "native" else "torch operations"}
