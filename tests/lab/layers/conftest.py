"""What is compared with a library is tested where that is installed (the extra `peers`)."""

from importlib.util import find_spec

NEEDS = {
    "transformers": ("deltaproduct", "fast_weights", "gated_deltanet", "mamba", "mamba2", "mlstm"),
    "yet_another_retnet": ("retnet",),
    "s5": ("s5",),
}
collect_ignore = [
    f"test_{name}.py"
    for package, names in NEEDS.items()
    if find_spec(package) is None
    for name in names
]
