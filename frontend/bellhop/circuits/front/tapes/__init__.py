"""Transforms of PennyLane that need a whole tape."""
