"""Compiled functions as files: saved by one process, run by another without tracing."""
