"""The compiled kernel, called with the GIL released. The C++ beside this file says what is computed.

`layout.py`, `library.py`, `table.py` and `search.py` work without torch.
"""

from csprop.ops.native.library import TARGET, WHY_NOT
from csprop.ops.native.table import run_table

__all__ = ["TARGET", "WHY_NOT", "run_table"]
