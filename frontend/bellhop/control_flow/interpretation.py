"""Whether loops and conditionals are Python's: where no program is traced."""

import sys

from bellhop._jax_compat import trace_state_clean
from bellhop.tracing import is_tracing


def is_interpreted() -> bool:
    """Tell whether control flow runs as Python does.

    It does where nothing is traced, and where a QNode that is not compiled records its tape:
    a loop of JAX's would put tracers of its own on it.
    """
    if is_tracing():
        return False
    return trace_state_clean() or _is_recording()


def _is_recording() -> bool:
    if "pennylane" not in sys.modules:
        return False
    import pennylane as qml

    return bool(qml.QueuingManager.recording())
