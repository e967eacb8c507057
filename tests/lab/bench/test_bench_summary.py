"""The README's tables of the bench: every number is one of the document."""

from typing import Any

from csprop_lab.bench.measure import figures
from csprop_lab.bench.summary import summary

ENVIRONMENT = {
    "cpu": "a CPU", "csprop": "1", "torch": "2", "python": "3", "backend": "native", "threads": 1,
    "allocator": "one that keeps",
}  # fmt: skip


def shown(*results: dict[str, Any], quick: bool = False) -> str:
    filled = [{"base": "csprop", "missing": [], **result} for result in results]
    return summary({"environment": ENVIRONMENT, "quick": quick, "results": filled})


def test_a_work_and_how_long_others_take() -> None:
    times = {"csprop": [1e-3, 2e-3, 3e-3], "torch backend": [2e-3], "nn.LSTM": [5e-3]}
    times |= {"csprop as a torch module": [4e-3], "reference loop": [1e-1], "copy": [5e-4]}
    sizes = {"csprop": 1285, "torch backend": 1285, "nn.LSTM": 100_098}
    text = shown({"work": "a step", **figures(times), "parameters": sizes, "missing": ["mambapy"]})
    assert "| a step | 2.00 ms (1.50–2.50 ms) | 2.50 × | 2.00 × | reference loop: 50.0 × |" in text
    assert "The allocator, for all: one that keeps." in text
    assert text.endswith("of the first row, csprop has 1,285 parameters, nn.LSTM 100,098.")


def test_growth_and_memory() -> None:
    by_length = {
        "csprop": {"16": 9.0, "1024": 4.0, "65536": 2.0},
        "short": {"16": 18.0},
        "nn.LSTM": {"16": 20.0, "1024": 30.0},
        "csprop, 2 threads": {"65536": 1.0},
    }
    text = shown(
        {"work": "growth", "microseconds": by_length},
        {"work": "memory", "activations": {"csprop": 2.0, "peer": 5.0}},
        {"work": "hardly any", "activations": {"csprop": 0.0, "nn.LSTM": 5.0}},
        {"work": "unknown to the system", "activations": {}},
    )
    assert (
        "4.00 µs a token at T = 1,024 and 2.00 at T = 65,536; at T = 1,024 nn.LSTM takes 7.50" in text
    )
    assert "Memory: csprop 2.0, peer 5.0." in text
    assert "Hardly any: csprop less than 0.1, nn.LSTM 5.0." in text
    assert "nknown to the system" not in text
    assert "parameters" not in text


def test_seeds_together_beside_one_alone() -> None:
    text = shown({"work": "ten seeds", **figures({"csprop": [2e-3], "one alone": [3e-3]})})
    assert "Ten seeds: 2.00 ms; of one that is trained alone, 1.50 times that." in text


def test_commands_beside_their_own_base() -> None:
    times = {"python": [2.0, 2.0, 4.0], "csprop --help": [0.0295, 0.03, 0.0302]}
    text = shown({"work": "commands", "base": "python", **figures(times)})
    assert "| commands | time | times `python` |" in text
    assert "| `python` | 2.00 s (2.00–3.00 s) | 1.00 |" in text
    assert "| `csprop --help` | 30.00 ms (29.75–30.10 ms) | 0.01 |" in text  # 0.015


def test_a_quick_run_is_no_result() -> None:
    assert "these numbers are not results" in shown(quick=True)
    assert "these numbers are not results" not in shown()
