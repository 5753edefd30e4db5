"""Seeing what programs do while they run."""
