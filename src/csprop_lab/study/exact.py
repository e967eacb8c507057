"""Rotors locked and proven right at every length, on the tasks that have a finite automaton."""

import statistics

from csprop_lab.study.job import Job, csp
from csprop_lab.study.main import Main
from csprop_lab.study.table import QUICK, Budget, Label, Rows, Table, markdown

# The tasks of the main table whose rows are shown here too, then the others.
IN_MAIN = ("parity", "mod3", "mod3-residue")
QUICKLY = ("flip-flop", "group-A5")
OTHERS = (
    "mod5-residue", "mod7-residue", "cycle-nav", "flip-flop", "mod3-reset", "group-S3", "group-A4",
    "group-S4", "group-A5", "group-S5", "even-pairs", "group-A5-all",
)  # fmt: skip


class Exact(Table):
    name, title = "exact", "Exact at every length"

    def jobs(self, budget: Budget) -> dict[Label, list[Job]]:
        main = Main()
        seeds, others = range(budget.seeds), QUICKLY if budget is QUICK else OTHERS
        jobs: dict[Label, list[Job]] = {
            (task,): [main.job(budget, task, "rotor", "disjoint", seed) for seed in seeds]
            for task in IN_MAIN
        }
        for task in others:
            jobs[task,] = [csp(task, "rotor", seed, lock=True) for seed in seeds]
        return jobs

    def table(self, rows: Rows) -> str:
        """The table itself, in Markdown."""
        headings = ["task", "proven for all lengths", "states", "seconds a seed: median (most)"]
        lines = []
        for (task,), seeds in rows.items():
            locked = [row["locked"] for row in seeds if "locked" in row]
            proven = [each for each in locked if each["proven"]]
            states = sorted({str(each["states"]) for each in proven})
            seconds = [row["seconds"] for row in seeds]
            lines.append(
                [
                    task,
                    f"{len(proven)} of {len(seeds)}",
                    " or ".join(states),
                    f"{statistics.median(seconds):.0f} ({max(seconds):.0f})",
                ]
            )
        return markdown(headings, lines)

    def text(self, rows: Rows, budget: Budget) -> str:
        return (
            f"Preset `rotor`, trained at length 16, then locked and proven, {budget.seeds} seeds. The "
            "seconds are those of one core for training (several seeds together), locking and proof, "
            "and for the tasks of the main table also for measuring the accuracy by length.\n\n"
            + self.table(rows)
        )
