"""The work of each of several processes, for tests/training/test_distributed.py.

Each writes its results to rank-N.json in a directory; the last one kills itself.
"""

import contextlib
import io
import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

import csprop
from csprop.cells import BUILT_IN
from csprop.cli.main import main
from csprop.errors import InputError
from csprop.training import batches

SMALL = {"width": 4, "depth": 2, "epochs": 3, "batch_size": 7, "hold": 0, "lr": 0.002}
JOBS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "parity": ("native", "parity", {"preset": "rotor", "samples": 202, "length": 6}),
    "drawn": ("native", "mod3", {"preset": "rotor", "samples": 202, "length": 6, "lengths": "drawn"}),
    "torch": ("torch", "parity", {"preset": "rotor", "samples": 202, "length": 6}),
    "rows": ("native", "rows.jsonl", {"preset": "rotor", "supervise": "every", "loss": "focal"}),
    "cuts": ("torch", "rows.jsonl", {"preset": "rotor", "lengths": "drawn", "weight_decay": 0.01}),
}
"""A backend, a task or file, and options. Without the kernel, native is torch."""


def train(name: str, folder: Path, **changes: Any) -> csprop.Run:
    """Train one of the jobs, with batches of rows of many lengths in parts.

    Numbers are float64, because training amplifies rounding: with float32 the second digit differs
    after a few epochs on these rows, with any backend.
    """
    named, task, options = JOBS[name]
    batches.MOST_PADDED = 32
    torch.set_default_dtype(torch.float64)
    try:
        with csprop.use_backend("torch" if csprop.ops.native.WHY_NOT else named):
            return csprop.train(folder / task if "." in task else task, **SMALL | options | changes)
    finally:
        torch.set_default_dtype(torch.float32)


def numbers(run: csprop.Run) -> dict[str, Any]:
    """Return the numbers that must be the same in all processes."""
    weights = {name: value.tolist() for name, value in run.model.state_dict().items()}
    assert run.result is not None
    shown = {"metrics": run.metrics, "weights": weights, "path": str(run.path)}
    return shown | {"result": run.result.to_json()}


def refusals(folder: Path, rank: int) -> dict[str, Any]:
    """Return the exit code and stderr of commands, and a message in Python."""
    (folder / str(rank)).mkdir()
    os.chdir(folder / str(rank))
    if rank != 1:
        Path("here.csv").write_text("".join(f"{n:05b},{'ab'[n % 2]}\n" for n in range(32)))
    commands = {
        "seeds": ["train", "parity", "--seeds", "0-1"],
        "existing": ["train", "parity", "--out", str(folder / "runs" / "parity")],
        "absent": ["train", "--data", "here.csv", "--out", "absent"],
    }
    said: dict[str, Any] = {}
    for name, argv in commands.items():
        with contextlib.redirect_stderr(io.StringIO()) as told:
            said[name] = main([*argv, "--distributed"]), told.getvalue()
    try:
        train("parity", folder, distributed=True, seed=rank)
    except InputError as error:
        said["other"] = str(error)
    return said


class Tagger(nn.Module):
    """A network of a user around a layer."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        drawn = torch.Generator().manual_seed(0)
        self.layer = csprop.CSPLayer(8, kind=kind, depth=2, vocab_size=3, generator=drawn)
        self.head = nn.Linear(8, 2)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @property
    def layers(self) -> list[Any]:
        return list(self.layer.blocks)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.layer(tokens)[0])


def model() -> csprop.CSP:
    config = csprop.CSPConfig(vocab_size=3, num_classes=2, width=8, depth=2)
    return csprop.CSP(config, torch.Generator().manual_seed(0))


def by_hand(rank: int, size: int, made: Callable[[], Any]) -> dict[str, float]:
    """Return the distance of a model in torch's wrappers from one that one process trains."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    def stepped(model: nn.Module, rows: slice) -> None:
        drawn = torch.Generator().manual_seed(1)
        tokens, labels = (torch.randint(n, (4 * size, 12), generator=drawn)[rows] for n in (3, 2))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            F.cross_entropy(model(tokens).flatten(0, 1), labels.flatten()).backward()
            optimizer.step()

    def distance(model: nn.Module, whole: Callable[[Any], Tensor] = lambda tensor: tensor) -> float:
        with torch.no_grad():
            pairs = zip(alone.parameters(), model.parameters(), strict=True)
            return max(float((a - whole(b)).abs().max()) for a, b in pairs)

    alone, start, own = made(), made(), slice(rank, None, size)
    stepped(alone, slice(None))
    copies, mesh = made(), init_device_mesh("cpu", (size,))
    stepped(DistributedDataParallel(copies), own)
    results = {"moved": distance(start), "DDP": distance(copies)}
    # A module may return a view: nobody changes it in place.
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view tensor")
    for name, parts in {"FSDP2": False, "FSDP2 of each layer": True}.items():
        shards = made()
        for layer in shards.layers if parts else ():
            fully_shard(layer, mesh=mesh)
        fully_shard(shards, mesh=mesh)
        stepped(shards, own)
        results[name] = distance(shards, lambda tensor: tensor.full_tensor())
    return results


def act(folder: Path) -> None:
    """Do all of it."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    warnings.simplefilter("error")
    results: dict[str, Any] = {}
    for name in JOBS:
        run = train(name, folder, out=folder / "runs" / name, distributed=True)
        results[name] = numbers(run)
    again = {"out": folder / "runs" / "resumed", "distributed": True}
    train("rows", folder, **again, epochs=1)
    results["resumed"] = numbers(train("rows", folder, **again, resume=True))
    makers = {"model": model, **{kind: partial(Tagger, kind) for kind in BUILT_IN}}
    results["by hand"] = {name: by_hand(rank, size, made) for name, made in makers.items()}
    results["refused"] = refusals(folder, rank)

    def write() -> None:
        (folder / f"rank-{rank}.json").write_text(json.dumps(results))

    def die(row: object) -> None:
        if rank == size - 1:
            write()
            os.kill(os.getpid(), signal.SIGKILL)
        results["since"] = time.monotonic()

    try:
        train("parity", folder, out=folder / "runs" / "killed", distributed=True, on_epoch=die)
    except ConnectionError as error:
        results["lost"] = str(error), time.monotonic() - results["since"]
    write()


if __name__ == "__main__":
    act(Path(sys.argv[1]).resolve())
    # Groups of torch's wrappers would outlive the process group, and then threads of gloo abort.
    sys.stdout.flush()
    os._exit(0 if not dist.is_initialized() or dist.get_rank() < dist.get_world_size() - 1 else 1)
