"""The commands that a user types, from the shell to the shell."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from csprop.data.names import join_symbols
from csprop.files import replace
from csprop.tasks import get
from csprop.training.seeding import generator
from csprop_lab.bench.measure import Times, measure_seconds

TORCH = 'python -c "import torch"'
COMMANDS = {
    "csprop --help": "--help",
    "csprop tasks": "tasks",
    "csprop train parity": "train parity --out {folder}/run",
    "csprop certify RUN": "certify {folder}/run",
    "csprop predict RUN, certified": "predict {folder}/run",
    "csprop learn FILE, 300 rows": "learn {folder}/rows.jsonl --out {folder}/learned",
}
"""Commands and their arguments. A command may need the files that earlier ones have written."""


def times(rounds: int) -> Times:
    """Seconds of each command and of a Python that imports torch, which take their turns.

    Every round is in a folder of its own.
    """
    found: Times = {name: [] for name in (TORCH, *COMMANDS)}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            _write_rows(Path(folder) / "rows.jsonl")
            found[TORCH].append(measure_seconds(_python("-c", "import torch")))
            for name, arguments in COMMANDS.items():
                words = (argument.format(folder=folder) for argument in arguments.split())
                found[name].append(measure_seconds(_python("-m", "csprop", *words)))
    return found


def _python(*arguments: str) -> Callable[[], object]:
    def run() -> None:
        command = [sys.executable, *arguments]
        done = subprocess.run(command, input="0110\n", capture_output=True, text=True)
        if done.returncode not in (0, 1):  # 1 is an answer
            raise RuntimeError(f"{' '.join(arguments)}: {done.stderr}")

    return run


def _write_rows(path: Path) -> None:
    """Rows to learn a small machine from."""
    task, lines = get("mod3-reset"), []
    for row in task.sample(300, 12, generator(0, "rows")).tolist():
        sequence = join_symbols([task.vocab[token] for token in row], task.words)
        lines.append(json.dumps({"sequence": sequence, "label": task.classes[task.truth(row)]}) + "\n")
    replace(path, "".join(lines).encode())
