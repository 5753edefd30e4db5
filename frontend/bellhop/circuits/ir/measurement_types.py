"""Predicates for leaves of a quantum function's result."""

import pennylane as qml


def is_measurement(value: object) -> bool:
    """Return whether a leaf of the result is a PennyLane measurement process."""
    return isinstance(value, qml.measurements.MeasurementProcess)


def is_state_sized(value: object) -> bool:
    """Return whether a leaf measures a state, density matrix or probabilities."""
    return isinstance(value, qml.measurements.StateMP | qml.measurements.ProbabilityMP)
