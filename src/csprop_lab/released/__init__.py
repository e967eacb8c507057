"""The model of the authors' public code, whose angles add up over time, as a torch module."""
