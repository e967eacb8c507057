"""Digits and text: layers of features compared on signals."""
