"""`csprop certify`: lock a run's model, prove it correct, and write the certificate."""

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from csprop.cli import common
from csprop.cli.options import Arg
from csprop.errors import InputError, about
from csprop.zoo.archive import in_zoo, name_of

if TYPE_CHECKING:
    from csprop.proof.certificate import Certificate


@dataclass(frozen=True, kw_only=True)
class Args(common.Arguments):
    """Lock the model of a run and prove it correct at every length.

    Locking rounds the states of the model to exact values. The proof is written to the run, as
    certificate.json. Exit code 0 means proven.

    Examples:
        csprop certify runs/parity
        csprop certify runs/parity --check
    """

    runs: Annotated[
        tuple[Path, ...],
        Arg("RUN...", positional=True),
    ]
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
    for name, least in (("depth", 1), ("rounds", 0)):
        value = getattr(args, name)
        if value is not None and not least <= value <= 1000:
            raise InputError(f"--{name} {value}: write {least} to 1000")
    if args.check:
        documents = [_check(args, path) for path in args.runs]
    else:
        certificates = [_certify(args, path) for path in args.runs]
        documents = [each.to_json() for each in certificates]
        if len(certificates) > 1 and not args.json:
            _show_table(args.runs, certificates)
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
    if args.length is not None and run.task.total:
        from csprop.training.scores import check_exhaustive

        with about("length", args.length):
            check_exhaustive(run.task, args.length)
    certificate = run.certify(
        length=args.length,
        depth=args.depth,
        rounds=args.rounds,
        progress=False,
        on_round=lambda line: common.say(f"{path}: {line}"),
    )
    if not _is_current(run, certificate):
        common.say(f"{path}: the existing certificate is kept; this result is not saved")
    if not args.json and len(args.runs) == 1:
        _show(path, certificate, run.config.model.width)
        if args.length is None and (not certificate.proven or _is_poor(certificate)):
            _hint(args, path, run)
    return certificate


def _is_current(run: Any, certificate: "Certificate") -> bool:
    """Return True if the run now has this certificate, and not an earlier one."""
    try:
        return run.certificate is certificate
    except InputError:
        return False


def _show(path: Path, certificate: "Certificate", width: int) -> None:
    from csprop.proof.facts import list_facts

    print(f"{path}: {certificate.verdict if certificate.proven else 'not proven'}\n")
    common.show_text(certificate.statement)
    if numbers := list_facts(certificate, width):
        print()
        for name, value in numbers:
            print(textwrap.fill(value, 80, initial_indent=f"{name:<10} ", subsequent_indent=" " * 11))
        print(
            f"\nThe whole certificate is in {path}/certificate.json. Next:\n"
            f"  csprop certify {path} --check\n"
            f"  csprop automaton {path} --format c\n"
            f"  csprop explore {path}"
        )


def _is_poor(certificate: "Certificate") -> bool:
    """Return True if so many rows of a file disagree that the machine is probably wrong."""
    from csprop.proof.attempts import LEARNED

    wrong = len(certificate.disagreeing)
    return certificate.rows is not None and wrong > (1 - LEARNED) * certificate.rows


def _hint(args: Args, path: Path, run: Any) -> None:
    """Print what to try next when nothing was proven, or nothing that is worth much."""
    from csprop.proof.attempts import LEARNED
    from csprop.training.scores import percent

    accuracy = None if run.result is None else run.result.accuracy
    learned = accuracy is None or accuracy >= LEARNED
    if accuracy is not None and not learned:
        print(f"\nThe model has not learned: {percent(accuracy)} of the held-out answers are right.")
    counts = run.config.preset == "counter"
    if not run.task.finite and not counts:
        print("\nThe task has infinitely many states, which only a model that counts can hold.")
    print("\nNext, one of:")
    steps = _finite_steps(path, run, learned) if run.task.finite else _counting_steps(path, run)
    if learned and (counts if not run.task.finite else not _is_router(run)):
        steps.insert(0, (f"csprop certify {path} --rounds {max(16, 2 * args.rounds)}", "more training"))
    for command, why in steps:
        print(f"  {command}\n      {why}")


def _is_router(run: Any) -> bool:
    from csprop.proof.places import is_router

    return is_router(run.model)


def _more_rows(path: Path, run: Any) -> tuple[str, str]:
    more = 2 * (run.config.recipe.samples or run.task.samples)
    return f"csprop train {run.task.name} --samples {more} --out {path}-more", "more sequences"


def _finite_steps(path: Path, run: Any, learned: bool) -> list[tuple[str, str]]:
    """Return what to try for a finite task or a data file, each with a reason."""
    named, steps = run.config.task, []
    asked = run.task.path if "data" in named else run.task.name
    if learned and _is_router(run) and "data" not in named:
        steps.append(_more_rows(path, run))
    if run.config.preset != "router":
        data = f"--data {asked}" if "data" in named else asked
        why = "a router holds any finite machine, a rotor only some"
        steps.append((f"csprop train {data} --preset router --out {path}-router", why))
    best = "several models, and the best machine"
    return [*steps, (f"csprop learn {asked} --out {path}-learned", best)]


def _counting_steps(path: Path, run: Any) -> list[tuple[str, str]]:
    """Return what to try for a task with infinitely many states, each with a reason."""
    task, steps = run.task, []
    if run.config.preset == "counter":
        steps.append(_more_rows(path, run))
    elif task.counting is not None:
        why = "a model that counts, whose proof has no limit of depth"
        steps.append((f"csprop train {task.name} --preset counter --out {path}-counter", why))
    length = max(n for n in range(1, 17) if len(task.vocab) ** n <= 2**20)
    return [*steps, (f"csprop certify {path} --length {length}", "tests every input of one length")]


def _show_table(paths: tuple[Path, ...], certificates: "list[Certificate]") -> None:
    headings = ["run", "verdict", "states", "minimal", "counters", "rounds"]
    rows = [
        [str(path), each.verdict, *_sizes(each)] for path, each in zip(paths, certificates, strict=True)
    ]
    if not any(row[4] for row in rows):
        headings, *rows = [[*row[:4], *row[5:]] for row in (headings, *rows)]
    common.show_table(headings, rows)


def _sizes(certificate: "Certificate") -> list[str]:
    """Return the states of the network and of the automaton, the counters, and the rounds."""
    from csprop.proof.certificate import CountingProof

    proof = certificate.proof
    if proof is None:
        return [""] * 4
    counters: int | str = ""
    if isinstance(proof, CountingProof):
        states, counters = proof.counting.control_states, getattr(certificate.automaton, "counters", "")
    else:
        states = proof.machine.network_states
    return list(map(str, (states, certificate.minimal_states, counters, proof.search.rounds)))


def _check(args: Args, path: Path) -> dict[str, Any]:
    from csprop.proof.verify import Rejected, verify
    from csprop.tasks import from_description
    from csprop.training.checkpoint import CERTIFICATE, RunFolder
    from csprop.training.stored import stored_config

    config, folder = stored_config(path), RunFolder(path)
    if not folder.has(CERTIFICATE):
        raise InputError(f"{path}: there is no certificate: run `csprop certify {path}` first")
    task = from_description(config.task, path)

    def read(name: str) -> bytes:
        file = folder.files / name
        if file.exists() and not file.is_file():  # a pipe or a device might never end
            raise Rejected(f"{name} is not a regular file")
        return file.read_bytes()

    try:
        certificate = verify(read, config.model.to_json(), task)
    except Rejected as reason:
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
