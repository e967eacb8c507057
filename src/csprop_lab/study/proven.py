"""Models right far beyond the trained length: as trained, and proven right at every length."""

import statistics
from collections.abc import Sequence

from csprop.tasks import get
from csprop.training.presets import Recipe
from csprop_lab.layers.basic import PeerConfig
from csprop_lab.study.job import Job, csp, network, sizes_of
from csprop_lab.study.main import Main
from csprop_lab.study.measure import SAMPLING, Row
from csprop_lab.study.protocols import length_of
from csprop_lab.study.table import (
    HOLD,
    QUICK,
    TASKS,
    Budget,
    Label,
    Rows,
    Table,
    median_and_worst,
    reached,
)
from csprop_lab.study.texts import markdown, words

FAR = 1024
"""The length, or the next one that a task has, at which counters are tested as trained."""


class Trained(Table):
    """csprop's presets before anything is locked, beside an LSTM that has the same labels."""

    name, title = "trained", "As trained"
    tasks, lengths = (*TASKS, "cycle-nav", "flip-flop"), (16, 256, 65_536)

    def jobs(self, budget: Budget) -> dict[Label, list[Job]]:
        recipe = Recipe(split="disjoint", supervise="every", lr=3e-3, epochs=100, hold=HOLD)
        lengths, seeds = tuple(n for n in self.lengths if n <= budget.longest), range(budget.seeds)
        jobs: dict[Label, list[Job]] = {}
        for task in TASKS[:1] if budget is QUICK else self.tasks:
            peer = PeerConfig(kind="LSTM", width=32, depth=1, **sizes_of(get(task)))
            preset = get(task).preset
            jobs[task, preset] = [
                Main().job(budget, task, preset, "disjoint", seed)
                if task in TASKS
                else csp(task, preset, seed, test_lengths=lengths)
                for seed in seeds
            ]
            jobs[task, "LSTM"] = [
                network(task, peer, recipe, seed, test_lengths=lengths) for seed in seeds
            ]
        return jobs

    def table(self, rows: Rows) -> str:
        """Return the table in Markdown."""
        lengths = min((seeds[0]["job"]["test_lengths"] for seeds in rows.values()), key=len)
        headings = ["task", "model, as trained", "parameters", *(f"{n:,} tokens" for n in lengths)]
        lines = []
        for (task, model), seeds in rows.items():
            found = [[row.get("lengths", {}).get(str(n), 0.0) for row in seeds] for n in lengths]
            size = f"{seeds[0]['result']['parameters']:,}"
            name = model if model == "LSTM" else f"csprop, {model}"
            lines.append([task, name, size, *map(median_and_worst, found)])
        return markdown(headings, lines)

    def text(self, rows: Rows, budget: Budget) -> str:
        return words(self.name, seeds=budget.seeds, hold=HOLD, table=self.table(rows))


class Exact(Table):
    """Rotors on the tasks that have a finite automaton."""

    name, title = "exact", "Exact at every length"
    in_main = ("parity", "mod3", "mod3-residue")
    """The tasks of the main table whose rows are shown here, too."""
    others = (
        "mod5-residue", "mod7-residue", "cycle-nav", "flip-flop", "mod3-reset", "group-S3", "group-A4",
        "group-S4", "group-A5", "group-S5", "even-pairs", "group-A5-all",
    )  # fmt: skip
    quick = ("flip-flop", "group-A5")

    def jobs(self, budget: Budget) -> dict[Label, list[Job]]:
        main, seeds = Main(), range(budget.seeds)
        jobs: dict[Label, list[Job]] = {
            (task,): [main.job(budget, task, "rotor", "disjoint", seed) for seed in seeds]
            for task in self.in_main
        }
        for task in self.quick if budget is QUICK else self.others:
            jobs[task,] = [csp(task, "rotor", seed, lock=True) for seed in seeds]
        return jobs

    def table(self, rows: Rows) -> str:
        """Return the table in Markdown."""
        headings = ["task", "proven for all lengths", "states", "seconds a seed: median (most)"]
        lines = []
        for (task,), seeds in rows.items():
            locked = [row["locked"] for row in seeds if "locked" in row]
            proven = [each for each in locked if each["proven"]]
            states = " or ".join(sorted({str(each["states"]) for each in proven}))
            seconds = [row["seconds"] for row in seeds]
            lines.append([task, f"{len(proven)} of {len(seeds)}", states, median_and_most(seconds)])
        return markdown(headings, lines)

    def text(self, rows: Rows, budget: Budget) -> str:
        return words(self.name, seeds=budget.seeds, table=self.table(rows))


class Unhinted(Exact):
    """Trackers, which are told nothing, on tasks for which a rotor is told an order or a depth."""

    name, title = "tracker", "Exact without a hint"
    tasks = (
        "group-S3", "group-A4", "group-S4", "group-A5", "group-S5", "group-S3xS3", "even-pairs",
        "group-A5-all",
    )  # fmt: skip
    quick = ("group-S3",)

    def jobs(self, budget: Budget) -> dict[Label, list[Job]]:
        tasks, seeds = self.quick if budget is QUICK else self.tasks, range(budget.seeds)
        return {(task,): [csp(task, "tracker", seed, lock=True) for seed in seeds] for task in tasks}


class Counters(Table):
    """Models that count, on tasks that no finite machine solves."""

    name, title = "counters", "Exact at every length and depth"
    in_main = "parenthesis"
    others = (
        "parenthesis-words", "majority", "anbn", "anb2n", "anbncn", "anbmcnm", "interleaved",
    )  # fmt: skip
    quick = ("majority",)

    def jobs(self, budget: Budget) -> dict[Label, list[Job]]:
        main, seeds = Main(), range(budget.seeds)
        jobs: dict[Label, list[Job]] = {
            (self.in_main,): [
                main.job(budget, self.in_main, "counter", "disjoint", seed) for seed in seeds
            ]
        }
        for task in self.quick if budget is QUICK else self.others:
            measured = {"test_lengths": (length_of(task, FAR),), "every_input": True, "lock": True}
            jobs[task,] = [csp(task, "counter", seed, **measured) for seed in seeds]
        return jobs

    def table(self, rows: Rows) -> str:
        """Return the table in Markdown."""
        headings = [
            "task", "seeds at 100% held out", "epochs to 100%: median (most)",
            "right on every input of the trained length", "proven for all lengths and depths",
            "states, counters", f"accuracy at {FAR:,} as trained: median (worst)",
            "seconds a seed: median (most)",
        ]  # fmt: skip
        return markdown(headings, [[task, *_cells(task, seeds)] for (task,), seeds in rows.items()])

    def text(self, rows: Rows, budget: Budget) -> str:
        count, far = SAMPLING.count(FAR), f"{FAR:,}"
        return words("counters", seeds=budget.seeds, count=count, far=far, table=self.table(rows))


def _cells(task: str, seeds: Sequence[Row]) -> list[str]:
    """Return the results of a task's seeds; one that diverged has nothing right and took no time."""
    done, firsts, count = [row for row in seeds if "result" in row], reached(seeds), len(seeds)
    tried = [row["result"]["exhaustive"] for row in done if row["result"]["exhaustive"]]
    proven = [row["locked"] for row in done if row["locked"]["proven"]]
    machines = sorted({(each["states"], each["counters"]) for each in proven})
    far = str(length_of(task, FAR))
    return [
        f"{len(firsts)} of {count}",
        f"{statistics.median(firsts):g} ({max(firsts)})" if firsts else "–",
        f"{sum(every['wrong'] == 0 for every in tried)} of {count}" if tried else "–",
        f"{len(proven)} of {count}",
        " or ".join(f"{states}, {counters}" for states, counters in machines),
        median_and_worst([row.get("lengths", {}).get(far, 0.0) for row in seeds]),
        median_and_most([row["training_seconds"] + row["locked"]["seconds"] for row in done]),
    ]


def median_and_most(seconds: Sequence[float]) -> str:
    """Return such as "3 (5)"."""
    return f"{statistics.median(seconds):.0f} ({max(seconds):.0f})" if seconds else "–"
