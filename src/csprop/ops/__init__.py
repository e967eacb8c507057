"""The one equation of the project, h_t = a_t · h_{t-1} + u_t, and its backends."""

from csprop.ops.closed import closed_form
from csprop.ops.scan import backend, scan, use_backend

__all__ = ["backend", "closed_form", "scan", "use_backend"]
