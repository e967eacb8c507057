"""Write the study's tables into README.md, between their marks: python docs/figures/blocks.py"""

import re
from pathlib import Path

from csprop.study import reproduce
from csprop.study.report import blocks
from csprop.study.results import Results
from csprop.study.table import FULL

ROOT = Path(__file__).parents[2]


def filled(text: str, made: dict[str, str]) -> str:
    """The text with each block as the rows have it."""
    return re.sub(
        r"(<!-- results: (\S+) -->\n).*?(<!-- end -->)",
        lambda found: f"{found[1]}{made[found[2]]}\n{found[3]}",
        text,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    readme = ROOT / "README.md"
    made = blocks(Results(ROOT / "results"), FULL, reproduce.TABLES)
    readme.write_text(filled(readme.read_text(), made))
