"""Torch's wrappers for several processes train a model as one process does."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import csprop

ROOT = Path(__file__).parents[2]
SIZE = 3
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not torch.distributed.is_available() or not torch.distributed.is_gloo_available(),
        reason="this torch has no gloo",
    ),
]


def test_wrappers_of_torch_train_the_model_as_one_process_does() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
    path = os.pathsep.join([str(Path(csprop.__file__).parents[1]), str(ROOT)])
    around = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "WORLD_SIZE": str(SIZE)}
    around |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.helpers.together"], cwd=ROOT, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=around | {"RANK": str(rank)},
        )
        for rank in range(SIZE)
    ]  # fmt: skip
    try:
        said = [process.communicate(timeout=240) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert not any(process.returncode for process in processes), "\n".join(err for _, err in said)
    for out, _ in said:
        for name, result in json.loads(out.splitlines()[-1]).items():
            moved, *distances = result.values()
            assert moved > 0.01, name
            assert len(distances) == 3
            assert max(distances) < 1e-5, (name, result)
