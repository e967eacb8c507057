"""Runs: a model with its task, its configuration and what is proven about it."""

from csprop.runs.machines import compile, from_machine
from csprop.runs.run import Run, load
from csprop.runs.training import train, train_seeds

__all__ = ["Run", "compile", "from_machine", "load", "train", "train_seeds"]
