"""Passes for callbacks: merging, hoisting, scheduling and lowering."""
