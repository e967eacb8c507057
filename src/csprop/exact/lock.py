"""Locking: from a trained model to a finite machine, or the reason why not.

`search` finds the codes and `refine` centres them. They are accepted only if the smallest gap between
codes is many times the largest distance snapped, and nothing that the model does hangs on rounding.
"""

from jaxtyping import Bool
from torch import Tensor

from csprop.automata.walk import Oracle
from csprop.exact.locked import Locked, NotFinite
from csprop.exact.margins import Tightness, accept, moves_of, settled, tightness
from csprop.exact.models import Stepwise
from csprop.exact.search import refine, search


def lock(
    model: Stepwise, kept: Bool[Tensor, "L D"], radius: float, domain: Oracle
) -> tuple[Locked, list[Tightness]]:
    """The model locked onto the states that lie a radius apart.

    Args:
        kept: the channels in use; the others stay where they start.
        radius: states closer than this are the same.
        domain: the inputs that count; `every_input` leaves none out.

    Raises:
        NotFinite: with the reason.
    """
    found = refine(model, kept, search(model, kept, radius, domain))
    locked = Locked(model, found.codes, kept, domain.symbols)
    moves = moves_of(locked, domain)
    measured = tightness(locked, moves)
    try:
        accept(measured)
    except NotFinite as reason:
        raise NotFinite(str(reason), found.codes) from None
    settled(locked, moves)
    return locked, measured
