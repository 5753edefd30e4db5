"""The devices of a mesh as wires of a state: which wires they are, and exchanges of wires."""
