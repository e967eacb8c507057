"""Which backend is in force, and with which a run goes on."""

import pytest

from csprop.ops import native
from csprop.ops.backends import as_before, backend, use_backend


def test_a_run_goes_on_with_its_backend_unless_another_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CSPROP_BACKEND", raising=False)
    assert as_before("reference") == "reference"
    monkeypatch.setenv("CSPROP_BACKEND", "torch")
    assert as_before("reference") == as_before("native") == backend() == "torch"
    with use_backend("reference"):
        assert as_before("torch") == "reference"


def test_a_run_of_the_kernel_goes_on_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CSPROP_BACKEND", raising=False)
    monkeypatch.setattr(native, "WHY_NOT", "not compiled")
    assert as_before("native") == "torch"
    assert as_before("reference") == "reference"
