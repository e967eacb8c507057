"""Locking: from a trained model to a finite machine.

`search` finds the codes and `refine` centres them. They are accepted only if the smallest gap between
codes is several times the largest snapping distance, and no transition or answer depends on rounding.
"""

from collections.abc import Sequence

from jaxtyping import Bool, Float
from torch import Tensor

from csprop.automata.walk import Oracle
from csprop.proof.limits import NotFinite, Tightness, accept, moves_of
from csprop.proof.locked import Locked
from csprop.proof.margins import settled, tightness
from csprop.proof.models import Stepwise
from csprop.proof.search import refine, search


def lock(
    model: Stepwise, kept: Bool[Tensor, "L D"], radius: float, domain: Oracle
) -> tuple[Locked, list[Tightness]]:
    """Lock a model.

    Args:
        model: the model.
        kept: the channels in use; the others stay at their initial value.
        radius: states closer than this are treated as the same state.
        domain: the inputs to consider; `every_input` considers all.

    Returns:
        The locked model, and the distances in each layer.

    Raises:
        NotFinite: the model cannot be locked; with the reason.
    """
    found = refine(model, kept, search(model, kept, radius, domain))
    return lock_at(model, found.codes, kept, domain)


def lock_at(
    model: Stepwise, codes: Sequence[Float[Tensor, "S M D"]], kept: Bool[Tensor, "L D"], domain: Oracle
) -> tuple[Locked, list[Tightness]]:
    """Lock a model at codes that are known, one list for each layer; otherwise as `lock`."""
    locked = Locked(model, codes, kept, domain.symbols)
    moves = moves_of(locked, domain)
    measured = tightness(locked, moves)
    try:
        accept(measured)
    except NotFinite as reason:
        raise NotFinite(str(reason), codes) from None
    settled(locked, moves)
    return locked, measured
