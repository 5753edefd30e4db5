"""Circuits on devices that are Python objects: called by the program, a tape for each run."""
