"""Decision whether Python runs loops and conditionals instead of the compiler."""

import sys
from contextlib import AbstractContextManager

from bellhop._jax.private import trace_state_clean
from bellhop.tracing.state import is_tracing, override_trace_state, trace_state


def is_eager() -> bool:
    """Return whether Python executes Bellhop's loops and conditionals eagerly.

    True if nothing is being traced, and while PennyLane records the tape of an uncompiled QNode, on
    which a JAX loop would put tracers.
    """
    if is_tracing():
        return False
    return trace_state_clean() or is_recording()


def is_unrolling() -> bool:
    """Return whether loops with static trip counts are unrolled while a program is traced."""
    return trace_state().unrolls


def force_unrolling() -> AbstractContextManager[None]:
    """Return a context in which loops with static trip counts are unrolled."""
    return override_trace_state(unrolls=True)


def is_outcome(value: object) -> bool:
    """Return whether a value is PennyLane's ``MeasurementValue``, not a tracer.

    Such values are the mid-circuit outcomes of circuits that PennyLane runs.
    """
    if "pennylane" not in sys.modules:
        return False
    import pennylane as qml

    return isinstance(value, qml.ops.MeasurementValue)


def is_recording() -> bool:
    """Return whether PennyLane records a circuit outside of Bellhop's programs."""
    if is_tracing() or "pennylane" not in sys.modules:
        return False
    import pennylane as qml

    return bool(qml.QueuingManager.recording())
