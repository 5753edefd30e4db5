"""Threads that run Python functions, and the context of the caller."""
