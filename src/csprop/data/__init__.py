"""Rows of labelled sequences: formats, packing, names and splits."""
