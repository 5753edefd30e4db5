"""Simulate circuits as JAX arrays inside the compiled program."""
