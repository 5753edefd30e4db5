"""Lists of numbers that the program computes, as parameters of operations.

PennyLane makes arrays of lists by NumPy, which cannot hold what is being traced.  So
``circuit([0.1, 0.2])`` would fail in a template, and a unitary written as rows of computed
numbers too.
"""

import functools
from typing import Any

import autoray
import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml


@functools.cache
def take_lists_of_tracers() -> None:
    """Let PennyLane's operations and its ``qml.math.array`` take such lists; once a process."""
    original = qml.operation.Operator.__init__

    @functools.wraps(original)
    def init(self: Any, *params: Any, **options: Any) -> None:
        original(self, *map(as_array, params), **options)

    qml.operation.Operator.__init__ = init
    for name in ("array", "asarray"):
        for backend in ("builtins", "numpy"):
            autoray.register_function(backend, name, functools.partial(_make, name))


def as_array(value: Any) -> Any:
    """Return a list that holds traced numbers as an array, and anything else as it is."""
    return jnp.array(value) if _holds_tracer(value) else value


def _make(name: str, value: Any, *args: Any, **options: Any) -> Any:
    library: Any = jnp if _holds_tracer(value) else np
    return getattr(library, name)(value, *args, **options)


def _holds_tracer(value: Any) -> bool:
    if not isinstance(value, list | tuple):
        return False
    return any(isinstance(item, jax.core.Tracer) or _holds_tracer(item) for item in value)
