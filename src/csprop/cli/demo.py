"""`csprop demo`: the three tasks of the paper, learned while you watch."""

from dataclasses import dataclass
from pathlib import Path

from csprop.cli import common, train
from csprop.errors import InputError

TASKS = ("parity", "mod3", "parenthesis")


@dataclass(frozen=True, kw_only=True)
class Args:
    """Train parity, mod3 and parenthesis at length 16 and test each on all 65,536 inputs."""

    out: Path = Path("runs/demo")
    """Folder for the three runs."""

    json: common.Flag = False
    """One JSON document on stdout."""


def parse(argv: list[str]) -> Args:
    return common.parse(Args, "demo", argv)


def run(args: Args) -> int:
    if args.out.exists():
        raise InputError(f"{args.out}: is there already: remove it, or choose another --out")
    from csprop.training import seeds

    results = []
    for name in TASKS:
        work = train.work(train.parse([name]), name, {0: args.out / name})
        results += seeds.train(work, common.progress)
    train.say_how_they_ended(results)
    learned = all(result.get("exhaustive", {}).get("wrong") == 0 for result in results)
    if args.json:
        common.show_json(results)
        return int(not learned)
    train.show(results)
    print(
        f"The three runs are in {args.out}/. They are right at the length they were\n"
        "trained on; at longer ones they may drift, unless locked. Next, try:\n"
        f"  csprop eval {args.out}/parity --lengths 16,64,1024,16384\n"
        f"  csprop certify {args.out}/parity          right at every length, proven\n"
        f"  csprop explore {args.out}/parity          watch it think, in the browser\n"
        f"  echo '(()())' | csprop predict {args.out}/parenthesis\n"
        "  csprop train parity --preset paper       the model as the paper prints it"
    )
    return int(not learned)
