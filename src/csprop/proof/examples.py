"""Labelled sequences, which `csprop.training.labelled` defines, by the name they have in proofs."""

from csprop.training.labelled import Judgement as Judgement
from csprop.training.labelled import Labelled as Labelled
