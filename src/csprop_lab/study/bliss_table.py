"""Languages that take counting, learned from few strings, beside what was reported of networks."""

from csprop_lab.study.bliss import LANGUAGES, LARGEST, TESTED
from csprop_lab.study.job import FileJob
from csprop_lab.study.table import QUICK, Budget, Label, Rows, Table, markdown, median_and_worst
from csprop_lab.study.texts import words

SIZES = (100, 250, 500, 1000)
WRITTEN = {
    "an_bn": "a^n b^n",
    "an_b2n": "a^n b^2n",
    "an_bn_cn": "a^n b^n c^n",
    "an_bn_cn_dn": "a^n b^n c^n d^n",
    "an_bm_c_n_plus_m": "a^n b^m c^(n+m)",
    "dyck_1": "Dyck-1",
}
REPORTED: dict[str, dict[int, tuple[str, str]]] = {
    "an_bn": {100: ("100.0%", "99.8%"), 500: ("100.0%", "99.8%")},
    "an_b2n": {100: ("100.0%", "99.9%"), 500: ("100.0%", "99.9%")},
    "an_bn_cn": {100: ("96.5%", "99.8%"), 500: ("100.0%", "99.8%")},
    "an_bn_cn_dn": {100: ("68.6%", "99.8%"), 500: ("99.9%", "99.8%")},
    "an_bm_c_n_plus_m": {100: ("98.9%", "98.9%"), 500: ("100.0%", "98.9%")},
    "dyck_1": {100: ("69.9%", "10.9%"), 500: ("100.0%", "10.8%")},
}
"""By language and strings: the test accuracy of the authors' MDLRNN, and that of the best other RNN."""


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
            reported = REPORTED[language].get(int(size), ("–", "–"))
            lines.append(
                [
                    WRITTEN[language],
                    f"{int(size):,}",
                    f"{sum(each['counters'] > 0 for each in found)} of {len(found)}",
                    f"{sum(each['right'] for each in found)} of {len(found)}",
                    median_and_worst([each["tested_right"] / each["tested"] for each in found]),
                    f"{max(row['seconds'] for row in some):.1f}",
                    *reported,
                ]
            )
        headings = [
            "language", "strings", "machines that count", "proven right at every length",
            "test strings right: median (worst)", "seconds at most", "their MDLRNN", "best other RNN",
        ]  # fmt: skip
        table = markdown(headings, lines)
        return words("bliss", tested=TESTED, largest=LARGEST, table=table)
