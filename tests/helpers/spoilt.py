"""Training that diverges."""

import math

import pytest
import torch

from csprop.training.loop import Trainer


def spoil(monkeypatch: pytest.MonkeyPatch, seed: int | None = None, epoch: int = 1) -> None:
    """Let the loss of an epoch be not a number, of all seeds or of one."""
    begin = Trainer.begin_epoch

    def spoilt(self: Trainer) -> None:
        begin(self)
        if self.epoch + 1 == epoch and seed in (None, self.seed):
            with torch.no_grad():
                self.model.decoder.linear.weight.fill_(math.nan)  # pyright: ignore

    monkeypatch.setattr(Trainer, "begin_epoch", spoilt)
