"""The compiled kernel, called with the GIL released. The C++ beside this file says what is computed.

Nothing here needs torch but what calls the kernel with tensors: `tensors.py`, `route.py`, `stepper.py`
and `step.py`.
"""

from csprop.ops.native.library import TARGET, WHY_NOT
from csprop.ops.native.table import run_table

__all__ = ["TARGET", "WHY_NOT", "run_table"]
