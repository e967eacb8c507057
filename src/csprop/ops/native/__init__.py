"""The compiled kernel, called with the GIL released. The C++ beside this file says what is computed.

`library.py` and `search.py` work without torch.
"""

from csprop.ops.native.library import TARGET, WHY_NOT

__all__ = ["TARGET", "WHY_NOT"]
