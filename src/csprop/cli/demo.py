"""`csprop demo`: train the three tasks of the paper and test each on every input."""

from dataclasses import dataclass
from pathlib import Path

from csprop.cli import common, train
from csprop.errors import InputError

TASKS = ("parity", "mod3", "parenthesis")


@dataclass(frozen=True, kw_only=True)
class Args:
    """Train parity, mod3 and parenthesis, and test each on every input of length 16."""

    out: Path = Path("runs/demo")
    """Directory for the three runs."""

    json: common.Flag = False
    """Print one JSON document on stdout."""


def parse(argv: list[str]) -> Args:
    return common.parse(Args, "demo", argv)


def run(args: Args) -> int:
    if args.out.exists():
        raise InputError(f"{args.out}: already exists: remove it, or choose another --out")
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
        f"The three runs are in {args.out}/. They are correct at the length they were\n"
        "trained on. At longer lengths they may drift, unless they are locked. Next:\n"
        f"  csprop eval {args.out}/parity --lengths 16,64,1024,16384\n"
        f"  csprop certify {args.out}/parity          prove it correct at every length\n"
        f"  csprop certify {args.out}/parenthesis     and at every depth\n"
        f"  csprop explore {args.out}/parity          step through it in the browser\n"
        f"  echo '(()())' | csprop predict {args.out}/parenthesis\n"
        "  csprop train parity --preset paper       train the model as printed in the paper"
    )
    return int(not learned)
