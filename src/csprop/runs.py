"""Runs: a trained model with its task, its configuration and what is proven about it."""

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from safetensors.torch import save as packed

from csprop import files
from csprop.automata.automaton import Automaton
from csprop.automata.machine import Machine
from csprop.automata.sources import automaton_of, read_automaton
from csprop.errors import InputError, described
from csprop.exact import store
from csprop.exact.attempts import ROUNDS
from csprop.exact.certify import certify, certify_at, certify_length
from csprop.exact.document import Certificate
from csprop.exact.locked import Locked
from csprop.files import one_writer
from csprop.nn.compiled import codes, compiled
from csprop.nn.model import CSP
from csprop.stream import Stream
from csprop.tasks import FileTask, RowsTask, resolve
from csprop.tasks.base import Task, encode, symbols
from csprop.tasks.machine import MachineTask
from csprop.training import checkpoint
from csprop.training import load as reading
from csprop.training.checkpoint import RunFolder
from csprop.training.config import RunConfig, configure, names_of, to_json
from csprop.training.loop import Diverged, Epoch
from csprop.training.metrics import at_length, last_logits, percent, score
from csprop.training.presets import Recipe
from csprop.training.presets import preset as preset_of
from csprop.training.session import Trained, execute, refuse_existing


class Run(Trained):
    """A trained model with its task, its configuration and its certificate.

    `model` is the model as trained. Once the run is certified, `locked` is the model that was proven
    correct, and `predict` and `stream` use it.
    """

    _certificate: Certificate | None
    _read = False

    def __repr__(self) -> str:
        accuracy = (
            "unfinished" if self.result is None else f"accuracy {percent(self.result['accuracy'])}"
        )
        where = "in memory" if self.path is None else str(self.path)
        config = self.config
        return f"Run({self.task.name}, {config.preset}, seed {config.seed}: {accuracy}; {where})"

    @property
    def certificate(self) -> Certificate | None:
        """What was proven, or why nothing was; None if the run was never certified.

        A certificate that is read from the run directory is checked first: the machine is computed
        again from the weights and compared with the task.

        Raises:
            InputError: the certificate in the run directory does not hold.
        """
        if not self._read:
            self._certificate, self._read = store.load(self), True
        return self._certificate

    @property
    def locked(self) -> Locked | None:
        """The locked model; None if nothing is proven."""
        if not self._read and self.path is not None and not RunFolder(self.path).has(checkpoint.LOCKED):
            return None  # a certificate of another kind is checked where somebody asks for it
        return None if self.certificate is None else self.certificate.locked

    @property
    def automaton(self) -> Automaton | None:
        """The minimal automaton of the locked model; None if nothing is proven."""
        return None if self.certificate is None else self.certificate.automaton

    def certify(
        self,
        *,
        length: int | None = None,
        depth: int | None = None,
        rounds: int = ROUNDS,
        on_round: Callable[[str], None] = lambda line: None,
    ) -> Certificate:
        """Lock the model and prove it correct at every length, using its training data.

        The result is kept in the run, and saved if the run has a directory. An earlier proof is
        replaced only by another proof.

        Args:
            length: instead, test the model as trained on every input of this length.
            depth: for a task with infinitely many states, the largest depth of the inputs to cover.
            rounds: how many times to train further and try again if the model does not lock.
            on_round: is called with a line about each round.

        Returns:
            The certificate, whether or not anything is proven.

        Raises:
            InputError: the options do not fit the task.
        """
        if length is not None:
            found = certify_length(self.model, self.task, length)
        else:
            found = certify(self.model, self.task, rounds=rounds, depth=depth, on_round=on_round)
        if self.path is not None:
            self._read = False  # another process may have written one
            kept = store.save(found, self.path, self)
        else:
            kept = found.locked is not None or self.locked is None
        if kept:
            self._certificate, self._read = found, True
        return found

    def answering(self, as_trained: bool = False) -> CSP | Locked:
        """The model to use: the locked one if there is one, unless `as_trained` is set."""
        return self.model if as_trained else self.locked or self.model

    def predict(
        self, sequences: Sequence[str | Sequence[str]], *, as_trained: bool = False
    ) -> list[str]:
        """Classify sequences.

        Args:
            sequences: each a string, or a list of names of tokens.
            as_trained: use the model as trained, even if the run is certified.

        Returns:
            The name of the class of each sequence.

        Raises:
            InputError: a sequence is empty, or has a token that is not in the vocabulary.
        """
        if isinstance(sequences, str | bytes) or not isinstance(sequences, Iterable):
            raise InputError(f"sequences must be a list, such as ['0110']; got {described(sequences)}")
        task, rows = self.task, []
        for number, sequence in enumerate(sequences, start=1):
            if isinstance(sequence, bytes) or not isinstance(sequence, Sequence):
                raise InputError(
                    f"sequence {number} must be a string or a list of tokens; got {described(sequence)}"
                )
            names = symbols(sequence, task.words) if isinstance(sequence, str) else sequence
            rows.append(encode(names, task.vocab, f"sequence {number}"))
        scores = last_logits(self.answering(as_trained), rows)
        return [task.classes[int(each.argmax())] for each in scores]

    def stream(self, *, as_trained: bool = False) -> Stream:
        """A stream that reads one token at a time, in constant memory.

        Args:
            as_trained: use the model as trained, even if the run is certified.
        """
        return self.answering(as_trained).stream()

    def save_pretrained(self, save_directory: str | Path) -> None:
        """Save the run as a run directory, with its locked model and its certificate.

        `csprop.load` and `Run.from_pretrained` read it; `CSP.from_pretrained` reads only the model.

        Args:
            save_directory: a directory that holds no run; it is created if necessary.

        Raises:
            InputError: the directory already holds a run.
        """
        refuse_existing([save_directory], resumable=False)
        folder, certificate = RunFolder(save_directory), self.certificate
        with one_writer(folder.path):
            folder.create(to_json(self.config, self.task, self.environment))
            folder.write(checkpoint.METRICS, b"".join(map(checkpoint.metrics_line, self.metrics)))
            folder.write(checkpoint.WEIGHTS, packed(self.model.state_dict()))
            if self.result is not None:
                folder.write_json(checkpoint.RESULT, self.result)
        if certificate is not None:
            store.save(certificate, folder.path)

    def push_to_hub(self, repo_id: str, **options: Any) -> Any:
        """Upload what `save_pretrained` saves to the Hugging Face Hub.

        Args:
            repo_id: the repository, such as "me/parity"; it is created if necessary.
            options: options of `huggingface_hub.HfApi.upload_folder`, such as `commit_message`, and
                `token`.

        Returns:
            What `upload_folder` returns.
        """
        from huggingface_hub import HfApi

        api = HfApi(token=options.pop("token", None))
        api.create_repo(repo_id, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(Path(folder) / "run")
            hidden = [files.LOCK, "last/*"]
            return api.upload_folder(
                repo_id=repo_id, folder_path=Path(folder) / "run", ignore_patterns=hidden, **options
            )

    @classmethod
    def from_pretrained(cls, name: str | Path, **options: Any) -> "Run":
        """Load a run from its directory or from the Hugging Face Hub.

        Args:
            name: a run directory, or a repository to which `push_to_hub` uploaded a run.
            options: options of `huggingface_hub.snapshot_download`, such as `revision`.

        Raises:
            InputError: the directory is not a run, or is damaged.
        """
        if Path(name).is_dir():
            return load(name)
        from huggingface_hub import snapshot_download

        return load(snapshot_download(str(name), **options))


def _run(trained: Trained) -> Run:
    return Run(**{each.name: getattr(trained, each.name) for each in fields(Trained)})


def _kept(task: Task, out: str | Path | None, runs: Sequence[str | Path | None], resume: bool) -> Task:
    """The task; rows from Python are written into the directory of the run, which needs them later."""
    if out is None or not isinstance(task, RowsTask) or isinstance(task, FileTask):
        return task
    if not resume:
        refuse_existing(each for each in runs if each is not None)
    return task.save(Path(out) / checkpoint.ROWS)


def train(
    task: str | Path | Task,
    preset: str | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    on_epoch: Callable[[Epoch], None] = lambda row: None,
    **changes: Any,
) -> Run:
    """Train a model.

    Args:
        task: a task, its name, or a data file. Rows from Python are written to rows.jsonl in `out`.
        preset: `rotor`, `router`, `counter` or `paper`; without it, the one that suits the task.
        seed: the seed of the data, the split, the initial weights and the order of examples.
        out: a run directory to write; without it, the run is kept in memory.
        resume: continue the run in `out` from its last completed epoch.
        on_epoch: is called with the metrics of each epoch.
        changes: options of `CSPConfig` or `Recipe` that differ from the preset, such as
            `rotate="input"`.

    Raises:
        InputError: there is no such task or option, or the directory already holds a run.
        Diverged: a loss or a gradient was not finite.
    """
    task = _kept(resolve(task), out, [out], resume)
    configs = [configure(task, preset, seed, **changes)]
    (trained,) = execute(task, configs, [out], resume, lambda rows: on_epoch(rows[seed]))
    if isinstance(trained, Diverged):
        raise trained
    return _run(trained)


def train_seeds(
    task: str | Path | Task,
    seeds: Iterable[int],
    preset: str | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    on_epoch: Callable[[dict[int, Epoch]], None] = lambda rows: None,
    **changes: Any,
) -> list[Run | Diverged]:
    """Train one model for each seed, all in one computation.

    Each result equals that of `train` with this seed, up to the rounding of sums.

    Args:
        task: as for `train`.
        seeds: the seeds.
        preset: as for `train`.
        out: a directory for the runs, which are named seed-0, seed-1, …
        resume: as for `train`.
        on_epoch: is called after each epoch with the metrics of every seed.
        changes: as for `train`.

    Returns:
        For each seed its run, or the reason why it diverged.

    Raises:
        InputError: there is no such task or option, or a directory already holds a run.
    """
    seeds = list(seeds)
    outs = [None if out is None else Path(out) / f"seed-{seed}" for seed in seeds]
    task = _kept(resolve(task), out, outs, resume)
    configs = [configure(task, preset, seed, **changes) for seed in seeds]
    outcomes = execute(task, configs, outs, resume, on_epoch)
    return [each if isinstance(each, Diverged) else _run(each) for each in outcomes]


def from_machine(
    task: Task,
    machine: Machine,
    out: str | Path | None = None,
    seed: int = 0,
    result: dict[str, Any] | None = None,
    recipe: Recipe | None = None,
) -> Run:
    """A run whose model has a machine in its weights, certified.

    Args:
        task: what the machine is an answer to: a `MachineTask` of it, a data file or any other task.
        machine: has the task's tokens and classes, in their order.
        out: a run directory to write; without it, the run is kept in memory.
        seed: the seed in the configuration, by which a data file is split into training and held-out
            rows.
        result: more for result.json, such as the accuracy on held-out rows.
        recipe: which rows were learned from; by default that of the preset.

    Raises:
        InputError: the machine does not fit the task or is too large, or the directory holds a run.
    """
    names = (task.vocab, task.classes)
    fits = machine.symbols == len(task.vocab)
    fits = fits and max(output or 0 for output in machine.outputs) < len(task.classes)
    if not fits or (isinstance(machine, Automaton) and (machine.vocab, machine.classes) != names):
        raise InputError(f"{task.name}: the machine has other tokens or classes than the task")
    if out is not None:
        refuse_existing([out], resumable=False)
    model = compiled(machine, len(task.classes))
    recipe = recipe or preset_of("router", task).recipe
    config = RunConfig(
        task=task.describe(), preset="router", seed=seed, model=model.config, recipe=recipe
    )
    model.trained_as, model.names = config, names_of(task)
    found = certify_at(model, [codes(model)], task)
    answering = found.locked or model
    if task.oracle is None:
        measured = score(answering, task.data)
    else:
        measured = at_length(answering, task, recipe.length, seed)
    made = {
        "epochs": 0, "ended": "compiled from a machine", "first_epoch_at_target": None, "best_epoch": 0,
        "accuracy": measured.accuracy, "f1": measured.f1, "exhaustive": None,
        "parameters": sum(each.numel() for each in model.parameters()),
    }  # fmt: skip
    run = Run(model, task, config, [], made | (result or {}))
    run._certificate, run._read = found, True
    if out is not None:
        run.save_pretrained(out)
        run.path = Path(out)
    return run


def compile(machine: Any, out: str | Path | None = None) -> Run:
    """Write a machine into the weights of a model, and prove that both give the same answers.

    Args:
        machine: an `Automaton`, a file of one in JSON as `csprop automaton` prints it, a DFA of
            automata-lib, or a Dfa, MooreMachine or MealyMachine of AALpy. A DFA may be incomplete: a
            sequence without a transition is rejected.
        out: a run directory to write; without it, the run is kept in memory.

    Returns:
        The run, certified. Its task is to answer as the machine does.

    Raises:
        InputError: the machine or the file is malformed, incomplete or too large, or the directory
            already holds a run.
    """
    if isinstance(machine, str | Path):
        task = MachineTask(read_automaton(machine), Path(machine).name)
    else:
        task = MachineTask(automaton_of(machine))
    return from_machine(resolve(task), task.automaton, out)


def load(path: str | Path, task: Task | None = None) -> Run:
    """Load a run from its directory.

    Args:
        path: the run directory.
        task: the task of the run. It is required for a task of your own, which csprop cannot find by
            its name.

    Raises:
        InputError: the directory is not a run or is damaged, or the task does not fit it.
    """
    return _run(reading.load(path, task))
