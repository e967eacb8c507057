"""The numbers of a certificate in words, for terminals, pages and notebooks."""

from csprop import notebook
from csprop.automata.arrows import describe_counters
from csprop.automata.automaton import CounterAutomaton
from csprop.automata.names import describe_size, join_names
from csprop.proof.certificate import Certificate, CountingProof, FiniteProof

CONTROLS = {
    "router": "the router of the model",
    "made anew": "switches made anew from the training rows; the trained ones did not lock",
    "trained": "the trained switches",
}


def html(certificate: Certificate) -> str:
    """Return a certificate as HTML, for a notebook."""
    width = certificate.locked.kept.shape[-1] if hasattr(certificate.locked, "kept") else 0
    return notebook.card(
        f"{certificate.task['name']}: {certificate.summary}",
        notebook.paragraph(certificate.statement),
        notebook.facts(list_facts(certificate, width)),
        proven=certificate.proven,
    )


def list_facts(certificate: Certificate, width: int) -> list[tuple[str, str]]:
    """Return the numbers of a proof, each with a name; a layer has `width` channels."""
    proof, automaton = certificate.proof, certificate.automaton
    if proof is None or automaton is None:
        return []
    if isinstance(proof, CountingProof):
        assert isinstance(automaton, CounterAutomaton)
        lines = _counting(proof, automaton)
    else:
        lines = _finite(proof, width, len(automaton))
    if certificate.disagreeing:
        lines.append(("disagree", f"rows {join_names(list(map(str, certificate.disagreeing)))}"))
    return lines


def _finite(proof: FiniteProof, width: int, minimal_states: int) -> list[tuple[str, str]]:
    channels = " + ".join(map(str, proof.search.channels))
    every = min(proof.search.channels) == width
    states = f"{proof.machine.network_states}, and {minimal_states} in the smallest automaton"
    lines = [
        ("states", states),
        ("channels", channels + (", all of them" if every else " kept, the others are not needed")),
    ]
    for number, layer in enumerate(proof.layers, start=1):
        if layer.codes > 1:
            name = "codes" if len(proof.layers) == 1 else f"codes, {number}"
            apart = f"{layer.gap:.2f} apart or more; states snap by {layer.snap:.2g} at most"
            lines.append((name, f"{layer.codes}, {apart}"))
    lead = f"the best score leads the next by at least {proof.margin:.2f} times the largest score"
    return [*lines, ("scores", lead)]


def _counting(proof: CountingProof, automaton: CounterAutomaton) -> list[tuple[str, str]]:
    network, near, far = proof.counting, automaton.window, proof.counting.window
    seen = f"counts are seen from −{near} to {near}, and beyond as these" if near else "nothing is seen"
    small = describe_size(len(automaton), automaton.counters)
    large = describe_size(network.control_states, len(network.increments[0]))
    control = CONTROLS[proof.search.control]
    if proof.search.control == "trained" and proof.search.rounds:
        control += ", trained further with fewer counters"
    return [
        ("machine", f"{small}; the network has {large}"),
        *((f"counter {name}", added) for name, added in describe_counters(automaton).items()),
        ("control", control),
        ("window", f"{seen}; in the network, from −{far} to {far}"),
        ("gates", f"each gate is at least {proof.gate:.2f} from where it would decide otherwise"),
        ("scores", f"the best score leads the next by at least {proof.margin:.2f}"),
        ("exact", f"counts up to {_power(proof.exact_up_to.locked)}; in the network's own float32, up "
         f"to {_power(proof.exact_up_to.network)}"),
    ]  # fmt: skip


def _power(number: int) -> str:
    """Return 2^24 rather than 16777216."""
    exponent = number.bit_length() - 1
    return f"2^{exponent}" if number == 2**exponent else f"{number:,}"
