"""What a certificate says, in words for people."""

from typing import Any

from csprop import notebook
from csprop.automata.arrows import describe_counters
from csprop.automata.automaton import CounterAutomaton
from csprop.automata.names import describe_size, join_names
from csprop.proof.document import Certificate, network_states


def verdict(certificate: Certificate) -> str:
    """What is proven of a run, in a few words."""
    if certificate.unchecked:
        return f"not proven: its certificate could not be checked ({certificate.unchecked})"
    return certificate.verdict if certificate.proven else f"not proven ({certificate.verdict})"


def html(certificate: Certificate) -> str:
    """What a notebook shows of a certificate."""
    width = certificate.locked.kept.shape[-1] if "machine" in certificate.document else 0
    return notebook.card(
        f"{certificate.document['task']['name']}: {verdict(certificate)}",
        notebook.paragraph(certificate.statement),
        notebook.facts(certified(certificate.document, width)),
        proven=certificate.proven,
    )


def certified(document: dict[str, Any], width: int) -> list[tuple[str, str]]:
    """The numbers of a certificate, each with its name; none, unless a machine was proven.

    Args:
        document: as certificate.json has it.
        width: the channels of a layer, whether they are kept or not.
    """
    if "counting" in document:
        return _counting(document) + _disagreeing(document)
    if "machine" in document:
        return _finite(document, width) + _disagreeing(document)
    return []


def _finite(document: dict[str, Any], width: int) -> list[tuple[str, str]]:
    """The numbers of a certificate of a finite machine."""
    channels, frame = document["search"]["channels"], document["search"].get("frame")
    width = width if frame is None else frame["parts"] // 2  # of the rotor that was made
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
    return lines


def _counting(document: dict[str, Any]) -> list[tuple[str, str]]:
    """The numbers of a certificate of a machine that counts."""
    network, exact = document["counting"], document["exact_up_to"]
    automaton = CounterAutomaton.from_json(document["automaton"])
    near, far = automaton.window, network["window"]
    seen = f"counts are seen from −{near} to {near}, and beyond as these" if near else "nothing is seen"
    small = describe_size(len(automaton), automaton.counters)
    large = describe_size(control_states(document), len(network["increments"][0]))
    return [
        ("machine", f"{small}; the network has {large}"),
        *((f"counter {name}", added) for name, added in describe_counters(automaton).items()),
        ("control", _control(document)),
        ("window", f"{seen}; in the network, from −{far} to {far}"),
        ("gates", f"each gate is at least {document['gate']:.2f} from where it would decide otherwise"),
        ("scores", f"the best score leads the next by at least {document['margin']:.2f}"),
        ("exact", f"counts up to {_power(exact['locked'])}; in the network's own float32, up to "
         f"{_power(exact['network'])}"),
    ]  # fmt: skip


def _control(document: dict[str, Any]) -> str:
    """Where the weights above the counters come from."""
    if document["search"]["control"] == "router":
        return "the router of the model"
    if document["search"]["control"] == "made anew":
        return "switches made anew from the training rows; the trained ones did not lock"
    if document["search"]["rounds"]:
        return "the trained switches, trained further with fewer counters"
    return "the trained switches"


def control_states(document: dict[str, Any]) -> int:
    """States of the control of a network that counts: what it holds, with an answer, and the start."""
    return 1 + len({(after, answer) for *_, after, answer in document["counting"]["decisions"]})


def _power(number: int) -> str:
    """2^24 rather than 16777216."""
    exponent = number.bit_length() - 1
    return f"2^{exponent}" if number == 2**exponent else f"{number:,}"


def _disagreeing(document: dict[str, Any]) -> list[tuple[str, str]]:
    if "disagreeing" not in document:
        return []
    return [("disagree", f"rows {join_names(list(map(str, document['disagreeing'])))}")]
