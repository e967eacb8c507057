"""`csprop info`: versions, backend, threads and CPU."""

from dataclasses import dataclass

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
    if args.version:
        if args.json:
            common.show_json({"csprop": __version__})
        else:
            print(f"csprop {__version__}")
        return 0
    from csprop.ops import gpu, native
    from csprop.training.config import environment

    facts = environment() | {"kernel": native.WHY_NOT or f"compiled, {native.TARGET} code"}
    facts["gpu"] = f"triton is {gpu.why_not()}" if gpu.why_not() else "triton"
    whole = "one call of the kernel; csprop train says if not, and why"
    facts["step"] = whole if facts["backend"] == "native" else "torch operations"
    if args.json:
        common.show_json(facts)
    else:
        for name, value in facts.items():
            print(f"{name:<9} {value}")
    return 0
