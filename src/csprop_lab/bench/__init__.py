"""Speed and memory of csprop and of other models of the same width and depth, on the same tokens."""
