"""Passes that split long straight-line code into functions, to compile faster."""
