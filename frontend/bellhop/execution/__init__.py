"""Execution of a qjit function's programs."""
