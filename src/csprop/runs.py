"""A run: a trained model, where it came from, and what is proven of it."""

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from safetensors.torch import save as packed

from csprop import files
from csprop.automata.automaton import Automaton
from csprop.errors import InputError
from csprop.exact import store
from csprop.exact.attempts import ROUNDS
from csprop.exact.certify import certify, certify_length
from csprop.exact.document import Certificate
from csprop.exact.locked import Locked
from csprop.files import one_writer
from csprop.nn.model import CSP
from csprop.stream import Stream
from csprop.tasks import resolve
from csprop.tasks.base import Task, encode, symbols
from csprop.training import checkpoint
from csprop.training import load as reading
from csprop.training.checkpoint import RunFolder
from csprop.training.config import configure, to_json
from csprop.training.loop import Diverged, Epoch
from csprop.training.metrics import last_logits
from csprop.training.session import Trained, execute, refuse_existing


class Run(Trained):
    """A trained model that knows its proof.

    `model` is the network as training left it. Once the run is certified, `locked` is the model that
    was proven, and it is the one that `predict` and `stream` answer with.
    """

    _certificate: Certificate | None
    _read = False

    @property
    def certificate(self) -> Certificate | None:
        """What was proven, or why nothing was; None where nobody has tried.

        Raises:
            InputError: the certificate in the run's directory does not hold.
        """
        if not self._read:
            self._certificate, self._read = store.load(self), True
        return self._certificate

    @property
    def locked(self) -> Locked | None:
        """The locked model, if there is a proof of it."""
        return None if self.certificate is None else self.certificate.locked

    @property
    def automaton(self) -> Automaton | None:
        """The smallest automaton that answers as the locked model does."""
        return None if self.certificate is None else self.certificate.automaton

    def certify(
        self,
        *,
        length: int | None = None,
        depth: int | None = None,
        rounds: int = ROUNDS,
        on_round: Callable[[str], None] = lambda line: None,
    ) -> Certificate:
        """Lock the model and prove it right at every length, with the data that it was trained on.

        What comes out is kept in the run, and in its directory if it has one; an earlier proof gives
        way to another proof alone.

        Args:
            length: try every input of this length instead, with the model as trained.
            depth: of a task with infinitely many states, how deep the inputs may go.
            rounds: how often to tune and try again, where the model does not lock.
            on_round: is told how each round went.

        Raises:
            InputError: the options do not fit the task.
        """
        if length is not None:
            found = certify_length(self.model, self.task, length)
        else:
            found = certify(self.model, self.task, rounds=rounds, depth=depth, on_round=on_round)
        kept = found.locked is not None or not self._proven()
        if kept and self.path is not None:
            store.save(found, self.path)
        if kept:
            self._certificate, self._read = found, True
        return found

    def _proven(self) -> bool:
        try:
            return self.locked is not None
        except InputError:  # what is there does not hold
            return False

    def answering(self, as_trained: bool = False) -> CSP | Locked:
        """The locked model where there is one, unless the one as trained is asked for."""
        return self.model if as_trained else self.locked or self.model

    def predict(
        self, sequences: Sequence[str | Sequence[str]], *, as_trained: bool = False
    ) -> list[str]:
        """The class of each sequence.

        Args:
            sequences: each a string, or a list of tokens by their names.
            as_trained: ask the network as training left it, where a certified run has a locked one.

        Raises:
            InputError: a sequence is empty, or has a token that is not in the vocabulary.
        """
        if isinstance(sequences, str):
            raise InputError(f"give a list of sequences, such as [{sequences!r}]")
        task, rows = self.task, []
        for number, sequence in enumerate(sequences, start=1):
            names = symbols(sequence, task.words) if isinstance(sequence, str) else sequence
            rows.append(encode(names, task.vocab, f"sequence {number}"))
        scores = last_logits(self.answering(as_trained), rows)
        return [task.classes[int(each.argmax())] for each in scores]

    def stream(self, *, as_trained: bool = False) -> Stream:
        """A tracker that reads one token at a time."""
        return self.answering(as_trained).stream()

    def save_pretrained(self, save_directory: str | Path) -> None:
        """Save the run as a directory: model, names of tokens and classes, lock and certificate.

        `csprop.load` and `Run.from_pretrained` read it; `CSP.from_pretrained` reads the model alone.

        Raises:
            InputError: the directory holds a run already.
        """
        refuse_existing([save_directory])
        folder, certificate = RunFolder(save_directory), self.certificate
        with one_writer(folder.path):
            folder.create(to_json(self.config, self.task))
            folder.write(checkpoint.METRICS, b"".join(map(checkpoint.metrics_line, self.metrics)))
            folder.write(checkpoint.WEIGHTS, packed(self.model.state_dict()))
            if self.result is not None:
                folder.write_json(checkpoint.RESULT, self.result)
        if certificate is not None:
            store.save(certificate, folder.path)

    def push_to_hub(self, repo_id: str, **options: Any) -> Any:
        """Upload what `save_pretrained` saves to the Hugging Face Hub.

        Args:
            repo_id: such as "me/parity"; it is made if it is not there.
            options: of `huggingface_hub.HfApi.upload_folder`, such as `token` or `commit_message`.
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
        """A run from its directory, or from the Hugging Face Hub.

        Args:
            name: a directory, or the name of a repository that `push_to_hub` made.
            options: of `huggingface_hub.snapshot_download`, such as `revision`.
        """
        if Path(name).is_dir():
            return load(name)
        from huggingface_hub import snapshot_download

        return load(snapshot_download(str(name), **options))


def _run(trained: Trained) -> Run:
    return Run(**{each.name: getattr(trained, each.name) for each in fields(Trained)})


def train(
    task: str | Path | Task,
    preset: str = "rotor",
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    on_epoch: Callable[[Epoch], None] = lambda row: None,
    **changes: Any,
) -> Run:
    """Train a model.

    Any option of `CSPConfig` or `Recipe` can be changed by its name: `train("parity", rotate="input")`.

    Args:
        task: a task, its name, or a data file.
        preset: `rotor` or `paper`.
        seed: determines data, split, first weights and order.
        out: a run directory to write; without it the run is in memory alone.
        resume: go on with the run in `out` from its last finished epoch.
        on_epoch: is given each row of the metrics.

    Raises:
        InputError: an option, the task or the directory does not fit.
        Diverged: a loss or a gradient was not finite.
    """
    task = resolve(task)
    configs = [configure(task, preset, seed, **changes)]
    (trained,) = execute(task, configs, [out], resume, lambda rows: on_epoch(rows[seed]))
    if isinstance(trained, Diverged):
        raise trained
    return _run(trained)


def train_seeds(
    task: str | Path | Task,
    seeds: Iterable[int],
    preset: str = "rotor",
    out: str | Path | None = None,
    resume: bool = False,
    on_epoch: Callable[[dict[int, Epoch]], None] = lambda rows: None,
    **changes: Any,
) -> list[Run | Diverged]:
    """Train one model for each seed, all as one computation; with `out`, into folders seed-0, seed-1, …

    Each result is what `train` gives for that seed, up to the rounding of sums. The arguments are those
    of `train`; `on_epoch` is given the rows of all seeds, by seed.
    """
    task, seeds = resolve(task), list(seeds)
    configs = [configure(task, preset, seed, **changes) for seed in seeds]
    outs = [None if out is None else Path(out) / f"seed-{seed}" for seed in seeds]
    outcomes = execute(task, configs, outs, resume, on_epoch)
    return [each if isinstance(each, Diverged) else _run(each) for each in outcomes]


def load(path: str | Path, task: Task | None = None) -> Run:
    """A run from its directory.

    Args:
        task: that of the run; it must be given where it is one's own, which csprop has no name for.

    Raises:
        InputError: it is no run, it is damaged, or the task does not fit it.
    """
    return _run(reading.load(path, task))
