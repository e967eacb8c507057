"""csprop's own layer of features, in the same frame as those of others."""

from torch import Tensor

from csprop.nn.layer import CSPLayer


class Features(CSPLayer):
    """What a `CSPLayer` gives after every step, without its last state."""

    def forward(self, x: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().forward(x)[0]


def rotor(width: int) -> Features:
    """Channels that the input turns."""
    return Features(width, width, kind="rotor")
