"""From PennyLane to circuits: intercept calls of QNodes and trace quantum functions."""
