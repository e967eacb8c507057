"""Finite machines: explored, run, minimised, compared, drawn and exported. Nothing here needs torch."""
