"""Locking of trained models onto finitely many states, proofs and certificates."""
