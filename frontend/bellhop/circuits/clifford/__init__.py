"""Clifford circuits with shots on ``default.clifford``: programs of Stim's, and its sampler."""
