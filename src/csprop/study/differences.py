"""Where the paper and this code differ, in sentences whose numbers come from the rows."""

from collections.abc import Mapping

from csprop.study.table import Rows


def text(found: Mapping[str, Rows]) -> str:
    return ""
