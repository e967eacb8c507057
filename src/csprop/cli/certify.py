"""`csprop certify`: lock a run's model, prove it correct, and write the certificate."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from csprop.cli import common
from csprop.cli.options import Arg
from csprop.errors import InputError
from csprop.fields import check_ranges
from csprop.zoo.archive import in_zoo, name_of

if TYPE_CHECKING:
    from csprop.proof.certificate import Certificate


@dataclass(frozen=True, kw_only=True)
class Args(common.Arguments):
    """Lock the model of a run and prove it correct at every length.

    Locking rounds the states of the model to exact values. The proof is written to the run, as
    certificate.json. `csprop train` ends with it if that takes only seconds; here there is no limit.
    Exit code 0 means proven.

    Examples:
        csprop certify runs/parity
        csprop certify runs/parity --check
    """

    runs: common.Runs
    """One or more run directories; with --check, also runs of `csprop zoo`, such as zoo:parity."""

    check: common.Flag = False
    """Verify the existing certificate, by code that is independent of the prover."""

    length: Annotated[int | None, Arg("N", "")] = None
    """Test the model as trained on every input of this length, instead of locking it."""

    depth: Annotated[int | None, Arg("N", "(default: half the trained length)")] = None
    """For a task with infinitely many states and a model that does not count: prove it for inputs up to
    this depth."""

    rounds: Annotated[int, Arg("N")] = 8
    """How many times to train further and try again if the model does not lock."""


def run(args: Args) -> int:
    if args.check and (args.length is not None or args.depth is not None):
        raise InputError("--check verifies an existing certificate: leave out --length and --depth")
    if args.length is not None and args.depth is not None:
        raise InputError("--length tests inputs of every depth: leave out --depth")
    check_ranges(args, depth=(1, 1000), rounds=(0, 1000))
    if args.check:
        documents = [_check(args, path) for path in args.runs]
    else:
        certificates = [_certify(args, path) for path in args.runs]
        documents = [each.to_json() for each in certificates]
        if len(certificates) > 1 and not args.json:
            pairs = zip(args.runs, certificates, strict=True)
            rows = [[str(path), each.verdict, each.size] for path, each in pairs]
            common.show_table(["run", "verdict", "machine"], rows)
    if args.json:
        common.show_json(documents if len(documents) > 1 else documents[0])
    return int(not all(document["proven"] for document in documents))


def _certify(args: Args, path: Path) -> "Certificate":
    if in_zoo(path):
        raise InputError(
            f"{path}: is proven already: add --check to verify it; "
            f"`csprop zoo {name_of(path)} --out DIR` copies it, and the copy can be certified"
        )
    run = common.load(path)
    from csprop.proof.attempts import LEARNED

    certificate = run.certify(
        length=args.length,
        depth=args.depth,
        rounds=args.rounds,
        progress=False,
        on_round=lambda line: common.say(f"{path}: {line}"),
    )
    current = False
    with suppress(InputError):  # an earlier certificate may not hold
        current = run.certificate is certificate
    if not current:
        common.say(f"{path}: the existing certificate is kept; this result is not saved")
    if not args.json and len(args.runs) == 1:
        show_certificate(path, certificate, run.config.model.width)
        # Where many rows of a file disagree, the machine is probably wrong.
        disagreeing = len(certificate.disagreeing) / (certificate.rows or 1)
        if args.length is None and (not certificate.proven or disagreeing > 1 - LEARNED):
            _suggest(args, path, run)
    return certificate


def show_certificate(path: Path, certificate: "Certificate", width: int) -> None:
    """Print what is proven about a run, with the numbers of the proof."""
    from csprop.proof.facts import list_facts

    print(f"{path}: {certificate.verdict if certificate.proven else 'not proven'}\n")
    common.show_text(certificate.statement)
    if facts := list_facts(certificate, width):
        print()
        common.show_facts(facts)
        print(f"\nThe whole certificate is in {path}/certificate.json.")
        common.show_next(f"certify {path} --check", f"automaton {path} --format c", f"explore {path}")


def _suggest(args: Args, path: Path, run: Any) -> None:
    """Print what to try next when nothing was proven, or nothing that is worth much."""
    from csprop.proof.attempts import LEARNED
    from csprop.proof.places import is_router
    from csprop.training.scores import percent

    task, preset, steps = run.task, run.config.preset, []
    accuracy = 1.0 if run.result is None or run.result.accuracy is None else run.result.accuracy
    learned, routes, counts = accuracy >= LEARNED, is_router(run.model), preset == "counter"
    if not learned:
        print(f"\nThe model has not learned: {percent(accuracy)} of the held-out answers are right.")
    if not task.finite and not counts:
        print("\nThe task has infinitely many states, which only a model that counts can hold.")
    built_in, more = "data" not in run.config.task, 2 * (run.config.recipe.samples or task.samples)
    source, data = (task.name, task.name) if built_in else (task.path, f"--data {task.path}")
    if learned and (not routes if task.finite else counts):
        steps.append((f"certify {path} --rounds {max(16, 2 * args.rounds)}", "more training"))
    if built_in and (learned and routes if task.finite else counts):
        steps.append((f"train {source} --samples {more} --out {path}-more", "more sequences"))
    if task.finite and preset != "router":
        why = "a router holds any finite machine, a rotor only some"
        steps.append((f"train {data} --preset router --out {path}-router", why))
    if task.counting is not None and not counts:
        why = "a model that counts, whose proof has no limit of depth"
        steps.append((f"train {source} --preset counter --out {path}-counter", why))
    if task.finite:
        steps.append((f"learn {source} --out {path}-learned", "several models, and the best machine"))
    else:
        length = max(n for n in range(1, 17) if len(task.vocab) ** n <= 2**20)
        steps.append((f"certify {path} --length {length}", "tests every input of one length"))
    print("\nNext, one of:")
    for command, why in steps:
        print(f"  csprop {command}\n      {why}")


def _check(args: Args, path: Path) -> dict[str, Any]:
    from csprop.proof.verify import Rejected, verify
    from csprop.tasks import from_description
    from csprop.training.checkpoint import CERTIFICATE, RunFolder
    from csprop.training.stored import stored_config

    config, folder = stored_config(path), RunFolder(path)
    if not folder.has(CERTIFICATE):
        raise InputError(f"{path}: there is no certificate: run `csprop certify {path}` first")
    task = from_description(config.task, path)
    try:
        certificate = verify(folder.read_bytes, config.model.to_json(), task)
    except (Rejected, InputError) as reason:
        complaint = str(reason)
    else:
        if certificate.unchecked:
            raise InputError(certificate.unchecked)
        if certificate.proven:
            if not args.json:
                print(f"{path}: the certificate holds\n")
                common.show_text(certificate.statement)
            return {"run": str(path), "proven": True, "statement": certificate.statement}
        complaint = "it claims no proof"
    common.say(f"csprop certify: {path}/certificate.json does not hold: {complaint}")
    return {"run": str(path), "proven": False, "complaint": complaint}
