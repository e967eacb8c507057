"""One model that several processes train, each on its share of the rows of every batch.

Every process draws the same batches from the same seed, takes its rows of each, and computes their
gradients. Weighted by the labels of each, these add up to the gradients of the whole batch, with which
all of them take the same step. DistributedDataParallel is not used: it adds gradients up in hooks of
autograd, which the kernel's steps do without, and would count every process the same, whatever number
of labels it has.
"""

import atexit
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from csprop.data.examples import Examples
from csprop.errors import InputError
from csprop.training.workers import check_torchrun

T = TypeVar("T")
PATIENCE = timedelta(minutes=10)
"""The longest time that a process waits for the others; one that has ended is noticed at once."""


class Elsewhere(InputError):
    """An error in another process, which reports it."""


class Group:
    """The processes that train one model together, as one of them sees it."""

    def __init__(self, within: Any) -> None:
        self._within = within
        self.rank, self.size = dist.get_rank(within), dist.get_world_size(within)

    def own(self, examples: Examples) -> Examples:
        """Return this process's share of some rows."""
        return examples[torch.arange(self.rank, len(examples), self.size)]

    def total(self, numbers: Tensor) -> Tensor:
        """Return the sums of the numbers of all processes, computed in place."""
        with _reaching():
            dist.all_reduce(numbers, group=self._within)
        return numbers

    def average(self, parameters: Sequence[Tensor], value: float, labels: int) -> float:
        """Replace the gradients of this process's rows by those of the whole batch; return its loss.

        `value` is the loss of this process's rows, and `labels` the number of their labels.
        """
        trained = [each for each in parameters if each.requires_grad]
        gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in trained]
        own = [torch.tensor([value, 1.0], dtype=torch.float64), *(each.flatten() for each in gradients)]
        sums = self.total(torch.cat(own) * labels)
        means = (sums[2:] / sums[1]).split([each.numel() for each in trained])
        for each, gradient, mean in zip(trained, gradients, means, strict=True):
            each.grad = gradient.copy_(mean.view_as(each))
        return float(sums[0] / sums[1])

    def of_first(self, value: T) -> T:
        """Return the value of the first process; the values of the others are ignored."""
        values = [value if self.rank == 0 else None]
        with _reaching():
            dist.broadcast_object_list(values, group=self._within, group_src=0)
        return value if self.rank == 0 else values[0]  # pyright: ignore[reportReturnType]

    def of_all(self, value: T) -> list[T]:
        """Return the values of all processes, in their order."""
        values: list[Any] = [None] * self.size
        with _reaching():
            dist.all_gather_object(values, value, group=self._within)
        return values

    @contextmanager
    def agreed(self) -> Iterator[None]:
        """Run a block in every process; if it fails in one, it fails in all with the same message.

        Outside process 0 the error is an `Elsewhere`, raised after process 0 has ended.
        """
        error = None
        try:
            yield
        except (InputError, OSError, MemoryError) as caught:
            error = caught
        messages = self.of_all(None if error is None else str(error) or "there is not enough memory")
        failed = [rank for rank, message in enumerate(messages) if message is not None]
        if not failed:
            return
        if self.rank == 0 and error is not None:
            raise error
        where = f"process {failed[0]} of {self.size}: " if failed[0] else ""
        if self.rank == 0:
            raise InputError(f"{where}{messages[failed[0]]}")
        with suppress(RuntimeError):
            dist.recv(torch.zeros(1), group=self._within, group_src=0)  # which does not come
        time.sleep(1)  # torchrun ends all where one has ended: the first is to speak before
        raise Elsewhere(f"{where}{messages[failed[0]]}")


@contextmanager
def joined() -> Iterator[Group]:
    """Join the processes that torchrun has started, or torch's process group if there is one."""
    if not dist.is_initialized():
        check_torchrun()
    with _reaching():
        # Torch's own group stays until the process ends, for torchrun's store cannot be joined a second
        # time; but not longer: some processes would be aborted by threads of gloo that are still there.
        if not dist.is_initialized():
            dist.init_process_group("gloo", timeout=PATIENCE)
            atexit.register(_leave)
        within: Any = dist.new_group(backend="gloo", timeout=PATIENCE)
    try:
        yield Group(within)
    finally:
        dist.destroy_process_group(within)


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


@contextmanager
def _reaching() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, ValueError) as error:  # gloo's, or the store's
        raise ConnectionError(
            "another process of this training has ended or does not answer: what it said, or torchrun "
            "says, is why; then add --resume to the same command to continue"
        ) from error
