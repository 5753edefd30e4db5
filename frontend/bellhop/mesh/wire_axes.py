"""Names of the mesh axes over which the wires of a state are partitioned."""

WIRE_AXIS_PREFIX = "bellhop_wire_"


def is_wire_axis(name: object) -> bool:
    """Return whether a mesh axis splits a circuit's state vector along one wire.

    Such an axis has a name that begins with `WIRE_AXIS_PREFIX`.
    """
    return isinstance(name, str) and name.startswith(WIRE_AXIS_PREFIX)
