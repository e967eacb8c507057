"""Certified runs that come with csprop."""
