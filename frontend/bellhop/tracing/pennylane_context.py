"""Whether PennyLane is to hand its control flow to us; it asks by ``bellhop.context``."""

from bellhop.tracing.state import trace_state


def is_tracing() -> bool:
    """Tell whether ``qml.for_loop``, ``qml.cond`` and their like are those of a program of ours.

    Where PennyLane decomposes or transforms operations it collects gates itself, in Python loops.
    """
    state = trace_state()
    return state.is_tracing and (state.circuit is None or state.circuit.is_collecting())
