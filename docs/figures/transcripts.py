"""Keeps what `csprop certify` says of the README's two runs in results/certify.json:

.venv/bin/python docs/figures/transcripts.py
"""

import io
import json
import os
import tempfile
from contextlib import redirect_stdout
from pathlib import Path

import torch

from csprop.cli.main import main
from csprop.training.config import environment

RUNS = {"parity": "runs/p", "group-A5": "runs/a5"}
KEPT = Path(__file__).parents[2] / "results" / "certify.json"


def certified(task: str, run: str) -> list[str]:
    """The lines of the proof, without those on what to do next."""
    assert main(["train", task, "--out", run]) == 0
    with redirect_stdout(io.StringIO()) as said:
        assert main(["certify", run]) == 0
    return said.getvalue().split(f"\n\n{run}/certificate.json")[0].splitlines()


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        found = {task: certified(task, run) for task, run in RUNS.items()}
        os.chdir(KEPT.parent)
    document = {"environment": environment(), "runs": RUNS, "certified": found}
    KEPT.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
