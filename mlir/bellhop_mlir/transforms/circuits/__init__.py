"""Passes over circuits and their gates."""
