"""What things cost: csprop beside its peers of the same width and depth, on the same tokens."""
