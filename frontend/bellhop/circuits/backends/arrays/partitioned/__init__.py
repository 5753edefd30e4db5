"""Simulate states that are partitioned over the devices of a mesh."""
