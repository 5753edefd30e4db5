"""Wires of a state that stand for devices of a mesh, and their exchange with local ones."""
