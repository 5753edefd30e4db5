"""Tracing of user functions: its state, its options, and rewrites of the jaxpr."""
