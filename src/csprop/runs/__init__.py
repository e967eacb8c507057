"""Runs: a model with its task, its configuration and what is proven about it."""
