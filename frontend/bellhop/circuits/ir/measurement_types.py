"""Which leaves of a quantum function's result are measurements of PennyLane."""

import pennylane as qml


def is_measurement(value: object) -> bool:
    """Tell whether a leaf of a quantum function's result is a measurement."""
    return isinstance(value, qml.measurements.MeasurementProcess)


def is_state_sized(value: object) -> bool:
    """Tell whether a leaf is a measurement whose result is as large as a state, and as precise."""
    return isinstance(value, qml.measurements.StateMP | qml.measurements.ProbabilityMP)
