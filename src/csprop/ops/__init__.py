"""The one equation of the project, h_t = a_t · h_{t-1} + u_t, and its backends."""

from csprop.ops.backends import backend, use_backend
from csprop.ops.closed import closed_form
from csprop.ops.scan import scan

__all__ = ["backend", "closed_form", "scan", "use_backend"]
