"""Whether what csprop says of a run directory is true, by code that shares nothing with the proof.

Every way to use a run is tried. What announces a proof must be right: the machine is walked beside the
task and compared with `Task.truth` on short inputs, or run over the rows of the file. Everything else
must be one sentence and exit 1 or 2.
"""

import contextlib
import csv
import hashlib
import io
import itertools
import json
import re
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from safetensors.torch import load as unpacked

import csprop
from csprop.cli.main import main
from csprop.errors import InputError
from csprop.report import read as reading
from csprop.tasks import get
from csprop.tasks.base import Task
from tests.helpers.forgery import relocked

CLAIMS = re.compile(
    r"proven for all lengths|proven up to depth|agrees? with (?:every row|all|[\d,]+ of)|"
    r"the certificate holds|"
    r"right on every input|at every length|of any length|as trained answered all as"
)
Tables = tuple[Sequence[Sequence[int]], Sequence[int | None], int]
"""Transitions, outputs and the start of a machine."""


class Lie(AssertionError):
    """Something was announced that is not so, or something went wrong in another way than it may."""


def demand(condition: object, complaint: str) -> None:
    if not condition:
        raise Lie(complaint)


class Table(Task):
    """The task of a machine, read off its JSON."""

    def __init__(self, name: str, document: Any) -> None:
        with contextlib.suppress(InputError):
            raise AssertionError(f"the name of {get(name)!r} is that of a machine")
        self.name, self.rows, self.outputs = name, document["transitions"], document["answers"]
        self.vocab, self.classes = tuple(document["vocab"]), tuple(document["classes"])
        self.first = document["start"]
        self.description = f"a machine of {len(self.rows)} states"

    def truth(self, sequence: Sequence[int]) -> int:
        return self.outputs[reduce(self.step, sequence, self.first)]

    def start(self) -> int:
        return self.first

    def step(self, state: int, token: int) -> int:
        return self.rows[state][token]

    def answer(self, state: int) -> int:
        return self.outputs[state]


class Truth:
    """What the task that a run's configuration names says of machines."""

    def __init__(self, path: Path) -> None:
        assert (path / "config.json").is_file()
        config = json.loads((path / "config.json").read_bytes())
        self.options, named = config["model"], config["task"]
        self.task: Task | None = None
        if "automaton" in named:
            self.task = Table(named["name"], named["automaton"])
        elif "data" not in named:
            self.task = get(named["name"])
        self.rows: list[tuple[list[int], int]] | None = None
        if self.task is None:
            self.vocab, self.classes = list(named["vocab"]), list(named["classes"])
            with contextlib.suppress(OSError, ValueError, LookupError):
                self.rows = self._rows(path / named["data"], named)
        else:
            self.vocab, self.classes = list(self.task.vocab), list(self.task.classes)

    def _rows(self, data: Path, named: dict[str, Any]) -> list[tuple[list[int], int]]:
        content = data.read_bytes()
        if hashlib.sha256(content).hexdigest() != named["sha256"]:
            raise ValueError
        cells = list(csv.reader(io.StringIO(content.decode())))
        split = (lambda text: text.split()) if named["words"] else list
        return [
            ([self.vocab.index(each) for each in split(sequence)], self.classes.index(label))
            for sequence, label in cells
        ]

    def allows(self, machine: Tables, stated: dict[str, Any]) -> bool:
        """Whether a machine is right after every input; of a file, whether the rows that disagree are
        those of a certificate."""
        rows, outputs, state = machine
        if any(len(row) != len(self.vocab) for row in rows):
            return False

        def said(sequence: Sequence[int]) -> int | None:
            return outputs[reduce(lambda here, token: rows[here][token], sequence, state)]

        if self.task is None:
            numbered, count = enumerate(self.rows or (), start=1), len(self.rows or ())
            wrong = [number for number, (each, label) in numbered if said(each) != label]
            same = stated.get("disagreeing", []) == wrong and stated.get("rows", count) == count
            return same and bool(count) and stated["verdict"] == self.verdict(wrong)
        tokens, todo = range(len(self.vocab)), [(state, self.task.start())]
        seen = set(todo)
        while todo:
            here, where = todo.pop()
            for token in tokens:
                pair = (rows[here][token], self.task.step(where, token))
                if outputs[pair[0]] != self.task.answer(pair[1]) or len(seen) > 20_000:
                    return False
                if pair not in seen:
                    seen.add(pair)
                    todo.append(pair)
        short = (itertools.product(tokens, repeat=length) for length in range(1, 7))
        return all(said(each) == self.task.truth(each) for rows in short for each in rows)

    def verdict(self, wrong: Sequence[int]) -> str:
        count = len(self.rows or ())
        return f"agrees with {count - len(wrong)} of {count} rows" if wrong else "agrees with every row"

    def right_at(self, length: int, model: Any) -> int:
        """How many inputs of a length a model answers wrongly."""
        assert self.task is not None
        inputs = list(itertools.product(range(len(self.vocab)), repeat=length))
        with torch.no_grad():
            said = model(torch.tensor(inputs))[:, -1].argmax(dim=1).tolist()
        return sum(a != self.task.truth(each) for a, each in zip(said, inputs, strict=True))


def smallest(machine: Tables) -> int:
    """How many states the smallest machine with the same answers has, by Moore's refinement."""
    rows, outputs, start = machine
    reached = {start}
    while (more := reached | {there for each in reached for there in rows[each]}) != reached:
        reached = more
    # The start before any token answers nothing: a state of its own, unless another goes on like it.
    block: dict[Any, Any] = {each: outputs[each] for each in reached}
    while True:
        finer = {each: (block[each], tuple(block[there] for there in rows[each])) for each in reached}
        if len(set(finer.values())) == len(set(block.values())):
            break
        names = {each: number for number, each in enumerate(dict.fromkeys(finer.values()))}
        block = {each: names[finer[each]] for each in reached}
    entered = {block[there] for each in reached for there in rows[each]}
    first = tuple(block[there] for there in rows[start])
    alike = any(block[s] in entered and tuple(block[t] for t in rows[s]) == first for s in reached)
    return len(entered) + (not alike)


class Judge:
    """Tries everything on one run directory. `outcomes` says what came of each."""

    def __init__(self, path: Path, certifies: bool = True) -> None:
        self.path, self.outcomes = path, dict[str, str]()
        self.truth: Truth | None = None
        with contextlib.suppress(Exception):  # then nothing at all may be announced
            self.truth = Truth(path)
        self._given()
        self._check()
        for verb in ("predict", "eval", "automaton", "report"):
            getattr(self, f"_{verb}")()
        if certifies:
            self._certify()

    # The Python interface.

    def _given(self, name: str = "load") -> None:
        self.claims, self.locked = set[str](), False
        try:
            run = csprop.load(self.path)
            certificate, locked, automaton = run.certificate, run.locked, run.automaton
            run.predict([[run.task.vocab[0]]])
        except InputError:
            self.outcomes[name] = "refused"
            return
        except Exception as error:
            raise Lie(f"load: {error!r}") from error
        self.locked = locked is not None
        if certificate is None:
            demand(locked is None and automaton is None, "a locked model without a certificate")
            self.outcomes[name] = "no certificate"
        elif certificate.unchecked:
            demand(not certificate.proven, "proven, and not checked")
            demand(not CLAIMS.search(certificate.verdict), f"unchecked: {certificate.verdict}")
            demand(not CLAIMS.search(certificate.statement), f"unchecked: {certificate.statement}")
            self.outcomes[name] = "served, said to be unchecked"
        elif locked is not None:
            self._proven(certificate)
            self.outcomes[name] = "served, and right"
        elif "length" in certificate.document:
            self._tried(certificate, run.model)
            self.outcomes[name] = "one length, and true"
        else:
            demand(certificate.proven is False, "proven without a machine")
            honest = ("counterexample", "not finite", "not learned")
            demand(certificate.verdict in honest, certificate.verdict)
            demand(certificate.statement.startswith("Nothing is proven: "), certificate.statement)
            self.outcomes[name] = "not proven"

    def _proven(self, certificate: Any) -> None:
        truth, machine, automaton = self.truth, certificate.locked.machine, certificate.automaton
        if truth is None:
            raise Lie("a proof of no task")
        for each in (machine, automaton):
            table = (each.transitions, each.outputs, each.start)
            demand(truth.allows(table, certificate.document), "a wrong machine is served")
            demand(smallest(table) == len(automaton), "the automaton is not the smallest")
        document = certificate.document
        named = (list(automaton.vocab), list(automaton.classes))
        demand(named == (truth.vocab, truth.classes), "other names")
        demand(certificate.proven is True and document["proven"] is True, "served, and not proven")
        demand(document["minimal_states"] == len(automaton), "another number of states")
        said, parts = certificate.statement, []
        if truth.task is not None:
            self.claims = {"proven for all lengths"}
            meant = f"is that of the task {truth.task.name!r} ({truth.task.description})."
            every = said.startswith("For every sequence of one or more tokens")
            demand(every and said.endswith(meant), said)
        else:
            count, wrong = len(truth.rows or ()), document.get("disagreeing", [])
            self.claims = {truth.verdict(wrong)}
            agreeing = f"{count - len(wrong)} of" if wrong else "all"
            states = len(set(map(tuple, certificate.locked.places.tolist())))
            parts = [f"a finite machine of {states} states,", f"agree with {agreeing} {count} rows of"]
            parts.append(f"automaton of {len(automaton)} states does")
        demand(all(part in said for part in parts), f"statement: {said}")
        demand({certificate.verdict} == self.claims, f"verdict: {certificate.verdict}")
        demand(document["verdict"] == certificate.verdict, "two verdicts")
        demand(document["statement"] == certificate.statement, "two statements")
        channels = certificate.locked.kept.sum(dim=1).tolist()
        demand(document["search"]["channels"] == channels, "another number of channels")
        demand(len(document["layers"]) == len(channels), "another number of layers")
        demand(document["margin"] >= 1e-3, "scores that are nearly a tie")

    def _tried(self, certificate: Any, model: Any) -> None:
        document = certificate.document
        assert self.truth is not None
        demand(type(document["length"]) is int, f"the length {document['length']!r}")
        wrong = self.truth.right_at(document["length"], model)
        demand(document["wrong"] == wrong, f"{wrong} are wrong, not {document['wrong']}")
        demand(certificate.proven is (wrong == 0), f"proven: {certificate.proven}")
        begins = "right on every input" if wrong == 0 else "wrong on some inputs"
        demand(certificate.verdict == f"{begins} of length {document['length']}", certificate.verdict)
        self.claims = {"right on every input", "as trained answered all as"} if wrong == 0 else set()

    # The command line.

    def _run(self, *argv: str, text: str = "") -> tuple[int, str, str]:
        try:
            with (
                patch("sys.stdin", io.StringIO(text)),
                contextlib.redirect_stdout(io.StringIO()) as out,
                contextlib.redirect_stderr(io.StringIO()) as err,
            ):
                code = main([argv[0], str(self.path), *argv[1:]])
        except (Exception, SystemExit) as error:
            raise Lie(f"{' '.join(argv)}: {error!r}") from error
        said, complaint = out.getvalue(), err.getvalue()
        demand(code in (0, 1, 2), f"{argv[0]}: exit {code}")
        if code == 2 or (code and "--check" in argv):
            *before, last = complaint.splitlines() or [""]
            demand(last.startswith("csprop "), f"{argv[0]}: exit {code} and {complaint!r}")
            progress = all(each.startswith(f"{self.path}: ") for each in before)
            demand(progress, f"{argv[0]}: {complaint!r}")
            demand(said == "", f"{argv[0]}: exit {code} and {said!r}")
        verb = "certify --check" if "--check" in argv else argv[0]
        self.outcomes[verb] = "exit 0" if code == 0 else f"exit {code}, one sentence"
        return code, said, complaint

    def _announced(self, verb: str, *texts: str) -> None:
        for text in texts:
            for found in CLAIMS.findall(re.sub("='[^']*'", "", text)):  # an option that is quoted
                demand(self.claims, f"{verb} says {found!r}")
                whole = found in ("agrees with every row", "agree with all")
                demand(not whole or "agrees with every row" in self.claims, f"{verb} says {found!r}")

    def _check(self) -> None:
        code, _, _ = self._run("certify", "--check")
        if code:
            return
        if self.truth is None:
            raise Lie("--check holds, and there is no such task")
        content, options = (self.path / "locked.safetensors").read_bytes(), self.truth.options
        try:
            machine = relocked(unpacked(content), options).machine
        except Exception as error:
            raise Lie(f"--check holds of weights that make no model: {error}") from error
        self._demand_right(machine.transitions, machine.outputs, machine.start)
        sizes = (len(self.truth.vocab), len(self.truth.classes))
        demand(sizes == (options["vocab_size"], options["num_classes"]), "--check: another size")

    def _demand_right(self, *table: Any) -> None:
        stated = json.loads((self.path / "certificate.json").read_bytes())
        right = self.truth is not None and self.truth.allows(table, stated)
        demand(right, "a wrong machine is announced")

    def _predict(self) -> None:
        vocab = self.truth.vocab if self.truth else ["0"]
        _, out, err = self._run("predict", text="".join(f"{each}\n" for each in vocab))
        self._announced("predict", out, err)

    def _eval(self) -> None:
        lengths = () if self.truth is None or self.truth.task is None else ("--lengths", "3,5")
        _, out, err = self._run("eval", *lengths)
        self._announced("eval", out, err)

    def _automaton(self) -> None:
        code, out, err = self._run("automaton")
        demand((code == 0) == self.locked, f"automaton: exit {code}")
        self._announced("automaton", err)
        if code == 0 and self.claims:
            document = json.loads(out)
            self._demand_right(document["transitions"], document["answers"], document["start"])

    def _report(self) -> None:
        out = self.path.parent / f"{self.path.name}.html"
        with patch.object(reading, "TIMES", (1,)):
            code, said, err = self._run("report", "--out", str(out))
        if code == 0:
            content = out.read_text()
            shown = content[content.index("<body") : content.index("Configuration and provenance")]
            shown = re.sub(r"<script.*?</script>", "", shown, flags=re.DOTALL)
            self._announced("report", said, err, shown)
            out.unlink()
        demand(out.exists() is False, "a page of a run that was refused")

    def _certify(self) -> None:
        """Last, as it writes."""
        code, said, err = self._run("certify", "--rounds", "0")
        before = self.outcomes["load"]
        self._given("load after certify")
        if code == 0:
            now = self.outcomes["load after certify"]
            demand(now == "served, and right", f"certified, and then: {now}")
        if code == 1:
            self.claims = set()
            self._announced("certify", said)
            if "stays" in err:
                demand(before == "served, and right", "certify: a proof that does not hold stays")
