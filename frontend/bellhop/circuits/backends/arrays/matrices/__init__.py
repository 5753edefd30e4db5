"""Matrices of operations, and their products with a state."""
