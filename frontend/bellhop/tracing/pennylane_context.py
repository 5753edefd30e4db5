"""Queries about tracing that PennyLane makes by ``bellhop.context``."""

from bellhop.tracing.state import trace_state


def is_tracing() -> bool:
    """Return whether PennyLane should let Bellhop trace a loop or conditional.

    ``qml.for_loop`` etc. call it through ``bellhop.context``. False outside of programs, and while
    PennyLane collects gates itself in Python loops, to decompose or transform operations.
    """
    state = trace_state()
    return state.is_tracing and (state.circuit is None or state.circuit.is_collecting())
