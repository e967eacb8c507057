"""The README's table of the bench: every number is one of the document."""

from csprop.bench import works
from csprop.bench.summary import summary

ENVIRONMENT = {
    "cpu": "a CPU", "csprop": "1", "torch": "2", "python": "3", "backend": "native", "threads": 1,
}  # fmt: skip


def shown(*results: works.Result) -> str:
    return summary({"environment": ENVIRONMENT, "quick": False, "results": list(results)})


def test_a_work_with_aims() -> None:
    asked: list[works.Aim] = [("peer", "faster", 3), ("floor", "slower", 5), ("absent", "faster", 2)]
    step = works._result("a step", {"csprop": 2e-3, "peer": 5e-3, "floor": 5e-4}, asked)
    sizes = {"csprop": 1285, "torch backend": 1285, "peer": 100_098}
    text = shown(step | {"parameters": sizes})
    aims = "peer at least 3, is 2.50: **missed**; floor at most 5, is 4.00: reached"
    assert (
        f"| a step | 2.00 ms | peer 2.50, floor 0.25 | {aims}; absent at least 2: not measured |"
        in text
    )
    assert "printed model has 1,285 parameters, peer 100,098. Aims missed: 1 of 2." in text


def test_growth_and_memory() -> None:
    by_length = {
        "csprop": {"16": 9.0, "1024": 4.0, "65536": 2.0},
        "far": {"16": 9.0},
        "peer": {"1024": 30.0},
    }
    text = shown(
        {"work": "growth", "microseconds": by_length, "aims": []},
        {"work": "memory", "activations": {"csprop": 2.0, "peer": 5.0}, "aims": []},
        {"work": "unknown to the system", "activations": {}, "aims": []},
    )
    assert "| growth | 4.00 at T = 1,024, 2.00 at T = 65,536 | at T = 1,024: peer 7.50 |  |" in text
    assert "| memory | 2.00 | peer 2.50 |  |" in text
    assert "| unknown to the system | unknown |  |  |" in text
    assert "parameters" not in text
    assert text.endswith("Aims missed: 0 of 0.")
