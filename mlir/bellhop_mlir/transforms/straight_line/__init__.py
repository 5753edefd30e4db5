"""Passes that cut long straight-line code into functions, which XLA compiles sooner."""
