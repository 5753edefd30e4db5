"""Bellhop's calls in ``jax.jit`` programs that are partitioned over devices."""
