"""Runs: a trained model with its task, its configuration and what is proven about it."""

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from safetensors.torch import save as packed

from csprop import files
from csprop.automata.automaton import Automaton, CounterAutomaton
from csprop.data.names import encode, split_symbols
from csprop.errors import InputError, described, require
from csprop.files import one_writer
from csprop.nn import onnx
from csprop.nn.model import CSP
from csprop.proof import store
from csprop.proof.attempts import ROUNDS
from csprop.proof.certificate import Certificate
from csprop.proof.certify import certify, certify_length
from csprop.proof.examples import Labelled
from csprop.proof.locked import Locked
from csprop.proof.locked_counter import LockedCounter
from csprop.stream import Stream
from csprop.tasks import FileTask
from csprop.tasks.base import Task
from csprop.training import checkpoint
from csprop.training.checkpoint import RunFolder, refuse_existing, refuse_zoo
from csprop.training.config import to_json
from csprop.training.metrics import last_logits
from csprop.training.scores import percent
from csprop.training.stored import Trained
from csprop.training.stored import load as load_trained
from csprop.zoo.archive import in_zoo


class Run(Trained):
    """A trained model with its task, its configuration and its certificate.

    `model` is the model as trained. Once the run is certified, `locked` is the model that was proven
    correct, and `predict` and `stream` use it.
    """

    _certificate: Certificate | None
    _read = False

    @classmethod
    def of(cls, trained: Trained) -> "Run":
        """Return a run with the same model, task and configuration, which can be certified."""
        return cls(**{each.name: getattr(trained, each.name) for each in fields(Trained)})

    def __repr__(self) -> str:
        accuracy = "unfinished" if self.result is None else f"accuracy {percent(self.result.accuracy)}"
        where = "in memory" if self.path is None else str(self.path)
        config = self.config
        return f"Run({self.task.name}, {config.preset}, seed {config.seed}: {accuracy}; {where})"

    def _repr_html_(self) -> str:
        from csprop.runs.shown import html

        return html(self)

    @property
    def certificate(self) -> Certificate | None:
        """The certificate: a proof, or the reason why there is none; None if never certified.

        A certificate in the run directory is checked first: the machine is computed again from the
        weights and compared with the task. One that does not hold is an InputError.
        """
        if not self._read:
            self._certificate, self._read = store.load(self), True
        return self._certificate

    @property
    def verdict(self) -> str:
        """The certificate in a few words; without one, the reason if training looked for a proof."""
        try:
            certificate = self.certificate
        except InputError as error:  # it does not hold
            return str(error)
        words = [self.no_proof] if certificate is None else [certificate.summary, certificate.size]
        return ", ".join(filter(None, words))

    @property
    def proven(self) -> bool:
        """True if the run has a certificate that holds, and proves something."""
        with suppress(InputError):
            return self.certificate is not None and self.certificate.proven
        return False

    @property
    def locked(self) -> Locked | LockedCounter | None:
        """The locked model; None if nothing is proven."""
        if not self._read and self.path is not None:
            folder = RunFolder(self.path)
            if not folder.has(checkpoint.LOCKED) and checkpoint.LOCKED not in folder.digests():
                return None  # a certificate of another kind is checked where somebody asks for it
        return None if self.certificate is None else self.certificate.locked

    @property
    def automaton(self) -> Automaton | CounterAutomaton | None:
        """The minimal automaton of the locked model; None if nothing is proven."""
        return None if self.certificate is None else self.certificate.automaton

    def certify(
        self,
        *,
        length: int | None = None,
        depth: int | None = None,
        rounds: int = ROUNDS,
        on_round: Callable[[str], None] = lambda line: None,
        progress: bool = True,
    ) -> Certificate:
        """Lock the model and prove it correct at every length, using its training data.

        The result is kept in the run, and saved if the run has a directory. An earlier proof is
        replaced only by another proof.

        Args:
            length: instead, test the model as trained on every input of this length.
            depth: for a task with infinitely many states, the largest depth of the inputs to cover.
            rounds: how many times to train further and try again if the model does not lock.
            on_round: is called with a line about each round.
            progress: show a bar, in a notebook or on a terminal.

        Returns:
            The certificate, whether or not anything is proven.

        Raises:
            InputError: the options do not fit the task.
        """
        refuse_zoo([] if self.path is None else [self.path])
        if length is not None:
            proof = certify_length(self.model, self.task, length)
        else:
            examples = None if self.training is None else Labelled.of(self.training)
            proof = certify(
                self.model, self.task, examples, rounds=rounds, depth=depth, on_round=on_round,
                progress=progress,
            )  # fmt: skip
        if self.path is not None:
            self._read = False  # another process may have written one
            better = store.save(proof, self.path, self)
        else:
            better = proof.locked is not None or self.locked is None
        if better:
            self._certificate, self._read, self.no_proof = proof, True, ""
        return proof

    def answering(self, as_trained: bool = False) -> CSP | Locked | LockedCounter:
        """Return the model to use: the locked one if there is one, unless `as_trained` is set."""
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
            names = split_symbols(sequence, task.words) if isinstance(sequence, str) else sequence
            rows.append(encode(names, task.vocab, f"sequence {number}"))
        scores = last_logits(self.answering(as_trained), rows)
        return [task.classes[int(each.argmax())] for each in scores]

    def stream(self, *, as_trained: bool = False) -> Stream:
        """Return a stream that reads one token at a time, in constant memory; see `predict`."""
        return self.answering(as_trained).stream()

    def to_onnx(self, path: str | Path, *, as_trained: bool = False) -> None:
        """Write the model to an ONNX file: see `CSP.to_onnx` and `predict`."""
        onnx.write(self.answering(as_trained), path, self.model.names)

    def save_pretrained(self, save_directory: str | Path) -> None:
        """Save the run in a directory that holds no run, with its locked model and its certificate.

        `csprop.load` and `Run.from_pretrained` read it; `CSP.from_pretrained` reads only the model.
        """
        more = {}
        if self.path is not None and RunFolder(self.path).has(checkpoint.SUSPECTS):
            more[checkpoint.SUSPECTS] = RunFolder(self.path).read_bytes(checkpoint.SUSPECTS)
        self._save(save_directory, more)

    def _save(self, save_directory: str | Path, more: Mapping[str, bytes]) -> None:
        """Save the run, and more files."""
        refuse_existing([save_directory], resumable=False)
        folder, certificate, task = RunFolder(save_directory), self.certificate, self.task
        with one_writer(folder.path), folder.draft() as draft:
            draft.begin(to_json(self.config, task, self.environment))
            draft.write(checkpoint.METRICS, b"".join(map(checkpoint.metrics_line, self.metrics)))
            draft.write(checkpoint.WEIGHTS, packed(self.model.state_dict()))
            if self.result is not None:
                draft.write_json(checkpoint.RESULT, self.result.to_json())
            if certificate is not None:
                store.save(certificate, draft.path)
            if isinstance(task, FileTask) and task.stored == checkpoint.ROWS and task.path.exists():
                draft.write(checkpoint.ROWS, task.path.read_bytes())
            for name, content in more.items():
                draft.write(name, content)

    def push_to_hub(self, repo_id: str, **options: Any) -> Any:
        """Upload what `save_pretrained` saves to the Hugging Face Hub, but no rows of data.

        Args:
            repo_id: the repository, such as "me/parity"; it is created if necessary.
            options: `token`, and options of `huggingface_hub.HfApi.upload_folder`, which is called.
        """
        require("huggingface_hub", "hub", "uploading a run")
        from huggingface_hub import HfApi

        api = HfApi(token=options.pop("token", None))
        api.create_repo(repo_id, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(Path(folder) / "run")
            hidden = [files.LOCK, checkpoint.ROWS]
            return api.upload_folder(
                repo_id=repo_id, folder_path=Path(folder) / "run", ignore_patterns=hidden, **options
            )

    @classmethod
    def from_pretrained(cls, name: str | Path, **options: Any) -> "Run":
        """Load a run from its directory, or from the Hugging Face Hub.

        Args:
            name: a run directory, or a repository to which `push_to_hub` uploaded a run.
            options: options of `huggingface_hub.snapshot_download`, such as `revision`.
        """
        if in_zoo(name) or Path(name).is_dir():
            return load(name)
        require("huggingface_hub", "hub", f"{name} is not a directory, and downloading it")
        from huggingface_hub import snapshot_download

        return load(snapshot_download(str(name), **options))


def load(path: str | Path, task: Task | None = None) -> Run:
    """Load a run from its directory.

    Args:
        path: the run directory, or the name of a run that comes with csprop, such as "zoo:parity".
        task: the task of the run. It is required for a task of your own, which csprop cannot find by
            its name.

    Raises:
        InputError: the directory is not a run or is damaged, or the task does not fit it.
    """
    return Run.of(load_trained(path, task))
