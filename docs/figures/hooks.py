"""What `mkdocs build` changes in a page: commands and what they print become two kinds of blocks.

Pages have indented blocks for both; tests/test_guide.py says how they are told apart.
"""

import re
from typing import Any

COMMANDS = r"(?:csprop (?!\w+:)|(?:cat|cp|echo|git|make|mv|python3?|rm|source) )"
BLOCK = re.compile(r"^```.*?^```$|(?<=\n\n)(?: {4}[^\n]*\n(?:\n+(?= {4}))?)+", re.DOTALL | re.MULTILINE)
"""A fence, which is left as it is, or an indented block."""


def on_page_markdown(markdown: str, page: Any = None, **_: Any) -> str:
    if page is not None and page.file.src_uri.startswith("notes/"):
        page.meta["search"] = {"boost": 0.2}  # the guide is found before the notes

    def told_apart(block: re.Match[str]) -> str:
        return block[0] if block[0].startswith("```") else "\n\n".join(_fences(block[0])) + "\n"

    return BLOCK.sub(told_apart, markdown + "\n")


def _fences(block: str) -> list[str]:
    """A block's parts, cut where commands end and what they print begins."""
    parts = re.split(r"\n\n+(?= {4}\S)", block.rstrip("\n"))
    joined: list[tuple[bool, str]] = []
    for part in parts:
        text = re.sub("^ {4}", "", part, flags=re.MULTILINE)
        command = re.match(COMMANDS, text) is not None
        if not command and joined and not joined[-1][0]:
            joined[-1] = (False, f"{joined[-1][1]}\n\n{text}")
        else:
            joined.append((command, text))
    return [
        f"``` {{ {'.bash' if command else '.text .printed'} }}\n{text}\n```" for command, text in joined
    ]


def on_post_page(output: str, **_: Any) -> str:
    """The theme's search dialog gets the name that a screen reader says."""
    return output.replace('role="dialog">', 'role="dialog" aria-label="Search">')


def on_page_content(html: str, page: Any = None, **_: Any) -> str:
    """Short words of code are not broken at their hyphens, and h_t and 2^20 are set as formulas."""
    html = re.sub(r"<code>([^<\n]{1,24})</code>", r'<code class="short">\1</code>', html)
    if page is not None and page.file.src_uri == "api.md":  # it has names such as x_y
        return html
    parts = re.split(r"(<(?:pre|code)\b.*?</(?:pre|code)>|<[^>]*>)", html, flags=re.DOTALL)
    return "".join(part if part.startswith("<") else _formulas(part) for part in parts)


def _formulas(text: str) -> str:
    raised = re.sub(r"\^(?:\{([^}]*)\}|\(([^)]*)\)|([−-]?\w+))", r"<sup>\1\2\3</sup>", text)
    letter = r"((?<![A-Za-z0-9_])[A-Za-z]|[α-ωΑ-Ω])"
    return re.sub(letter + r"_(?:\{([^}]*)\}|(\w))(?![a-z0-9_])", r"\1<sub>\2\3</sub>", raised)
