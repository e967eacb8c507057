"""Models that count, locked and proven at every length and depth: for tasks beyond finite machines."""

import statistics
from collections.abc import Sequence

from csprop_lab.study.job import Job, csp
from csprop_lab.study.main import Main
from csprop_lab.study.measure import SAMPLING, Row
from csprop_lab.study.protocols import length_of
from csprop_lab.study.table import (
    QUICK,
    Budget,
    Label,
    Rows,
    Table,
    markdown,
    median_and_worst,
    reached,
)

# The task of the main table whose rows are shown here too, then the others.
IN_MAIN = "parenthesis"
QUICKLY = ("majority",)
OTHERS = (
    "parenthesis-words", "majority", "anbn", "anb2n", "anbncn", "anbmcnm", "interleaved",
)  # fmt: skip
FAR = 1024
"""The length, or the next one that a task has, at which the models are tested as trained."""


class Counters(Table):
    name, title = "counters", "Exact at every length and depth"

    def jobs(self, budget: Budget) -> dict[Label, list[Job]]:
        main, seeds = Main(), range(budget.seeds)
        jobs: dict[Label, list[Job]] = {
            (IN_MAIN,): [main.job(budget, IN_MAIN, "counter", "disjoint", seed) for seed in seeds]
        }
        for task in QUICKLY if budget is QUICK else OTHERS:
            far = (length_of(task, FAR),)
            jobs[task,] = [
                csp(task, "counter", seed, test_lengths=far, every_input=True, lock=True)
                for seed in seeds
            ]
        return jobs

    def table(self, rows: Rows) -> str:
        """The table itself, in Markdown."""
        headings = [
            "task",
            "seeds at 100% held out",
            "epochs to 100%: median (most)",
            "right on every input of the trained length",
            "proven for all lengths and depths",
            "states, counters",
            f"accuracy at {FAR:,} as trained: median (worst)",
            "seconds a seed: median (most)",
        ]
        return markdown(headings, [[task, *_cells(task, seeds)] for (task,), seeds in rows.items()])

    def text(self, rows: Rows, budget: Budget) -> str:
        return (
            "Tasks that no finite machine solves: preset `counter`, trained at length 16 (18 where a "
            "task has no strings of 16), then locked and proven for every length and every depth, "
            f"{budget.seeds} seeds. A dash stands where there are more than 2^20 inputs, which are not "
            "all tried. States and counters are those of the smallest machine that was found. As "
            f"trained, a model answers {SAMPLING.count(FAR)} sequences of length {FAR:,}, or of the "
            "next length at which the task has strings. The seconds are those of one core for training "
            "(several seeds together), locking and proof.\n\n" + self.table(rows)
        )


def _cells(task: str, seeds: Sequence[Row]) -> list[str]:
    """How the seeds of a task did; one that diverged has nothing right and took no time."""
    done, firsts, count = [row for row in seeds if "result" in row], reached(seeds), len(seeds)
    tried = [row["result"]["exhaustive"] for row in done if row["result"]["exhaustive"]]
    proven = [row["locked"] for row in done if row["locked"]["proven"]]
    machines = sorted({(each["states"], each["counters"]) for each in proven})
    far = str(length_of(task, FAR))
    seconds = [row["training_seconds"] + row["locked"]["seconds"] for row in done]
    return [
        f"{len(firsts)} of {count}",
        f"{statistics.median(firsts):g} ({max(firsts)})" if firsts else "–",
        f"{sum(every['wrong'] == 0 for every in tried)} of {count}" if tried else "–",
        f"{len(proven)} of {count}",
        " or ".join(f"{states}, {counters}" for states, counters in machines),
        median_and_worst([row.get("lengths", {}).get(far, 0.0) for row in seeds]),
        f"{statistics.median(seconds):.0f} ({max(seconds):.0f})" if seconds else "–",
    ]
