"""What all packages may import: source positions, names of types, state of `with` blocks."""
