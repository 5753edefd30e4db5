"""Passes over calls of Python: which are made, when, and by what."""
