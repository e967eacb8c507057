"""What the compiled kernel can be told about a block."""

from typing import NamedTuple


class KernelOptions(NamedTuple):
    """The options of a block that the kernel knows, with the values of `ModelOptions`.

    The torch operator takes them one by one, under these names and in this order.
    """

    rotate: str
    angle: str
    decay: str
    silu: bool
    """SiLU after the recurrence."""
    norm: bool
    """Divide by the modulus."""
