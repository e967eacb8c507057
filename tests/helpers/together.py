"""The work of each of several processes, for tests/nn/test_wrappers.py: each prints its results."""

import json
import os
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

import csprop
from csprop.cells import BUILT_IN


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


if __name__ == "__main__":
    warnings.simplefilter("error")
    dist.init_process_group("gloo")
    kinds = BUILT_IN.keys() - {"tracker"}  # which withholds rotations from rows by their number
    makers = {"model": model, **{kind: partial(Tagger, kind) for kind in sorted(kinds)}}
    rank, size = dist.get_rank(), dist.get_world_size()
    print(json.dumps({name: by_hand(rank, size, made) for name, made in makers.items()}))
    # Groups of torch's wrappers would outlive the process group, and then threads of gloo abort.
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)
