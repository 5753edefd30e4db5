"""Map the devices of a mesh to wires of a state, and plan exchanges of wires."""
