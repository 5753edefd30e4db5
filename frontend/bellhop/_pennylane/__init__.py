"""Replaced functions of PennyLane."""
