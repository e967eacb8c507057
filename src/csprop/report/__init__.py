"""Runs and the study as one page that needs nothing else: curves, tables, and the model itself."""
