"""Compiled functions as files, which another process runs without tracing."""
