"""Compute the matrices of operations, and their products with a state."""
