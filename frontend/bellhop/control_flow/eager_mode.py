"""Whether loops and conditionals are Python's: where no program is traced."""

import sys
from contextlib import AbstractContextManager

from bellhop._jax.private import trace_state_clean
from bellhop.tracing.state import is_tracing, override_trace_state, trace_state


def is_interpreted() -> bool:
    """Tell whether control flow runs as Python does.

    It does where nothing is traced, and where a QNode that is not compiled records its tape:
    a loop of JAX's would put tracers of its own on it.
    """
    if is_tracing():
        return False
    return trace_state_clean() or is_recording()


def is_unrolling() -> bool:
    """Tell whether loops of known length are Python's in a program too."""
    return trace_state().unrolls


def force_unrolling() -> AbstractContextManager[None]:
    """Let Python run the loops of known length inside, of any values."""
    return override_trace_state(unrolls=True)


def is_outcome(value: object) -> bool:
    """Tell whether a value is a measurement's outcome in a circuit that is not compiled."""
    if "pennylane" not in sys.modules:
        return False
    import pennylane as qml

    return isinstance(value, qml.ops.MeasurementValue)


def is_recording() -> bool:
    """Tell whether PennyLane records a circuit by itself."""
    if is_tracing() or "pennylane" not in sys.modules:
        return False
    import pennylane as qml

    return bool(qml.QueuingManager.recording())
