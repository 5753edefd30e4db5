"""Compute scalars that equal equations make as one vector."""
