"""Recognize the measurements among the leaves of a quantum function's result."""


def is_measurement(value: object) -> bool:
    """Return whether a leaf of the result is a PennyLane measurement process.

    Only measurement processes have ``samples_computational_basis``: operators, arrays and values of
    mid-circuit measurements do not. So this package does not import PennyLane.
    """
    return hasattr(type(value), "samples_computational_basis")
