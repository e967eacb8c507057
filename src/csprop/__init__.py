"""csprop: the Complex State Propagator, from the paper's equations to exact state tracking."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from csprop import tasks
    from csprop.automata.automaton import Automaton, CounterAutomaton
    from csprop.cells.block import Block
    from csprop.cells.options import Cell, Counter, Paper, Resonator, Rotor, Router, Switch, Tracker
    from csprop.data.shipped import example
    from csprop.learning.learn import Learned, learn
    from csprop.nn.config import CSPConfig
    from csprop.nn.layer import CSPLayer
    from csprop.nn.model import CSP
    from csprop.ops.backends import use_backend
    from csprop.ops.scan import scan
    from csprop.proof.certificate import Certificate
    from csprop.proof.certify import certify
    from csprop.runs.machines import compile
    from csprop.runs.run import Run, load
    from csprop.runs.training import train, train_seeds

__version__ = "0.1.0"
__all__ = [
    "CSP", "Automaton", "Block", "CSPConfig", "CSPLayer", "Cell", "Certificate", "Counter",
    "CounterAutomaton", "Learned", "Paper", "Resonator", "Rotor", "Router", "Run", "Switch",
    "Tracker", "certify", "compile", "example", "learn", "load", "scan", "tasks", "train",
    "train_seeds", "use_backend",
]  # fmt: skip

# Names are imported when first used: `csprop --help` must not wait for torch.
_MODULES = {
    "automata.automaton": ["Automaton", "CounterAutomaton"],
    "cells.block": ["Block"],
    "cells.options": ["Cell", "Counter", "Paper", "Resonator", "Rotor", "Router", "Switch", "Tracker"],
    "data.shipped": ["example"],
    "learning.learn": ["Learned", "learn"],
    "nn.config": ["CSPConfig"],
    "nn.layer": ["CSPLayer"],
    "nn.model": ["CSP"],
    "ops.backends": ["use_backend"],
    "ops.scan": ["scan"],
    "proof.certificate": ["Certificate"],
    "proof.certify": ["certify"],
    "runs.machines": ["compile"],
    "runs.run": ["Run", "load"],
    "runs.training": ["train", "train_seeds"],
}
_HOMES = {name: f"csprop.{module}" for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "tasks":
        return import_module("csprop.tasks")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'csprop' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
