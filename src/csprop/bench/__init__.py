"""What things cost: csprop beside its peers, in one process on the same work."""
