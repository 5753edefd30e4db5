"""The package that all other packages of `circuits` may import: equations, wires, results."""
