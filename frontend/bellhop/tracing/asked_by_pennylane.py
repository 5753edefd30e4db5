"""Whether PennyLane is to hand its control flow to us; it asks by ``bellhop.context``."""

from bellhop.tracing import state as tracing


def is_tracing() -> bool:
    """Tell whether ``qml.for_loop``, ``qml.cond`` and their like are those of a program of ours.

    Where PennyLane decomposes or transforms operations it collects gates itself, in Python loops.
    """
    circuit = tracing.current_circuit()
    return tracing.is_tracing() and (circuit is None or circuit.is_collecting())
