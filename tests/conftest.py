"""The shapes of every tensor that the mathematics takes or gives are checked while the tests run."""

from jaxtyping import install_import_hook

ROOMS = ["ops", "nn.layers", "nn.block", "nn.decoder", "nn.coupling", "nn.model"]
install_import_hook([f"csprop.{room}" for room in ROOMS], "beartype.beartype")

import torch  # noqa: E402
from hypothesis import settings  # noqa: E402

torch.set_num_threads(1)
settings.register_profile("untimed", deadline=None)  # a busy machine is no failure
settings.load_profile("untimed")
