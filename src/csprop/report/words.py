"""What a certificate says, in words for people."""

from typing import Any

from csprop.exact.document import Certificate, network_states
from csprop.tasks.base import shown


def verdict(certificate: Certificate) -> str:
    """What is proven of a run, in a few words."""
    if certificate.unchecked:
        return f"not proven: its certificate could not be checked ({certificate.unchecked})"
    return certificate.verdict if certificate.proven else f"not proven ({certificate.verdict})"


def certified(document: dict[str, Any], width: int) -> list[tuple[str, str]]:
    """The numbers of a certificate, each with its name; none, unless it has a machine.

    Args:
        document: as certificate.json has it.
        width: the channels of a layer, whether they are kept or not.
    """
    if "machine" not in document:
        return []
    channels = document["search"]["channels"]
    kept = " + ".join(map(str, channels))
    all_kept = min(channels) == width
    lines = [
        (
            "states",
            f"{network_states(document['machine']['places'])}, "
            f"and {document['minimal_states']} in the smallest automaton",
        ),
        ("channels", f"{kept}, all of them" if all_kept else f"{kept} kept, the others are not needed"),
    ]
    for number, layer in enumerate(document["layers"], start=1):
        if layer["codes"] > 1:
            name = "codes" if len(document["layers"]) == 1 else f"codes, {number}"
            gap, snap = f"{layer['gap']:.2f}", f"{layer['snap']:.2g}"
            lines.append(
                (name, f"{layer['codes']}, {gap} apart or more; states snap by {snap} at most")
            )
    lead = f"{document['margin']:.2f} times the largest score"
    lines.append(("scores", f"the best score leads the next by at least {lead}"))
    if "disagreeing" in document:
        lines.append(("disagree", f"rows {shown(list(map(str, document['disagreeing'])))}"))
    return lines
