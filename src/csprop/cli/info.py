"""`csprop info`: versions, backend, threads and CPU."""

from dataclasses import dataclass

from csprop.cli import common


@dataclass(frozen=True, kw_only=True)
class Args(common.Arguments):
    """Show versions, backend, threads and CPU.

    Examples:
        csprop info
    """


def run(args: Args) -> int:
    from csprop.ops import native
    from csprop.training.config import environment

    facts = environment() | {"kernel": native.WHY_NOT or f"compiled, {native.TARGET} code"}
    whole = "one call of the kernel; csprop train says if not, and why"
    facts["step"] = whole if facts["backend"] == "native" else "torch operations"
    if args.json:
        common.show_json(facts)
    else:
        common.show_facts((name, str(value)) for name, value in facts.items())
    return 0
