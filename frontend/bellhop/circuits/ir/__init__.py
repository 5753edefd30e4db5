"""Data types that all packages of `circuits` share: circuits, wires, measurements, results."""
