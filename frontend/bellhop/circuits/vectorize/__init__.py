"""Scalars that are computed by equal equations are computed as one vector."""
