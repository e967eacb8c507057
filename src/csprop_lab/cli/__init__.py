"""The commands that the laboratory adds: reproduce, compare and bench."""
