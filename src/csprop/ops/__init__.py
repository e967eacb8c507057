"""The one equation of the project, h_t = a_t · h_{t-1} + u_t, and its backends.

Nothing is imported here: `backends` and `native` work without torch.
"""
