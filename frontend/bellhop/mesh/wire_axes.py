"""Names of the mesh axes over which the wires of a state are partitioned."""

WIRE_AXIS_PREFIX = "bellhop_wire_"


def is_wire_axis(name: object) -> bool:
    """Return whether a mesh axis, by its name, is a wire of a partitioned state."""
    return isinstance(name, str) and name.startswith(WIRE_AXIS_PREFIX)
