"""Noise models: a pass that adds noise to a circuit, and PennyLane's noise models."""
