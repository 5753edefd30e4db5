"""Runs of operations as matrices, and their products with a state."""
