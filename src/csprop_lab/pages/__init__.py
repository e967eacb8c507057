"""Pages about the study and about comparisons of layers."""
