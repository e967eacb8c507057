"""Write what was measured into README.md and the guides, between its marks:

    .venv/bin/python docs/figures/blocks.py

`<!-- results: NAME -->` and `<!-- end -->` stand on lines of their own around a table, or within a line
around a few words; such a line begins with another word, or Markdown takes all of it for HTML.
"""

from pathlib import Path

from csprop_lab.study import reproduce
from csprop_lab.study.publish import blocks
from csprop_lab.study.results import Results
from csprop_lab.study.summary import fill_blocks
from csprop_lab.study.table import FULL

ROOT = Path(__file__).parents[2]

if __name__ == "__main__":
    made = blocks(Results(ROOT / "results"), FULL, reproduce.TABLES)
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        text = page.read_text()
        if (new := fill_blocks(text, made)) != text:
            page.write_text(new)
            print(f"{page.relative_to(ROOT)}: written")
