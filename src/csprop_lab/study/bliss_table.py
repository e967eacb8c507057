"""Languages that take counting, learned from few strings, beside what was reported of networks."""

from csprop_lab.study.bliss import LANGUAGES, LARGEST, TESTED
from csprop_lab.study.job import FileJob
from csprop_lab.study.table import QUICK, Budget, Label, Rows, Table, median_and_worst
from csprop_lab.study.texts import markdown, read_numbers, words

SIZES = (100, 250, 500, 1000)
KNOWN = read_numbers("bliss.json")
"""By language, its form, and by the number of strings the test accuracy of the authors' MDLRNN and
of the best other RNN."""


class Bliss(Table):
    name, title = "bliss", "Languages that take counting"

    def jobs(self, budget: Budget) -> dict[Label, list[FileJob]]:
        sizes = SIZES[:1] if budget is QUICK else SIZES
        return {
            (language, str(size)): [
                FileJob(language=language, rows=size, wrong=0.0, method="csprop", options={}, seed=seed)
                for seed in range(budget.few_seeds)
            ]
            for language in LANGUAGES
            for size in sizes
        }

    def text(self, rows: Rows, budget: Budget) -> str:
        lines = []
        for (language, size), some in rows.items():
            found = [row["result"] for row in some]
            reported = KNOWN[language]["reported"].get(size, ("–", "–"))
            lines.append([
                KNOWN[language]["written"], f"{int(size):,}",
                f"{sum(each['counters'] > 0 for each in found)} of {len(found)}",
                f"{sum(each['right'] for each in found)} of {len(found)}",
                median_and_worst([each["tested_right"] / each["tested"] for each in found]),
                f"{max(row['seconds'] for row in some):.1f}", *reported,
            ])  # fmt: skip
        headings = [
            "language", "strings", "machines that count", "proven right at every length",
            "test strings right: median (worst)", "seconds at most", "their MDLRNN", "best other RNN",
        ]  # fmt: skip
        table = markdown(headings, lines)
        return words("bliss", tested=TESTED, largest=LARGEST, table=table)
