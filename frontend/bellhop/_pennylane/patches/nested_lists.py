"""Lists of traced numbers as parameters of operations.

PennyLane converts lists to arrays by NumPy, which fails for JAX's tracers.  So
``circuit([0.1, 0.2])`` would fail in a template, and so would a unitary written as rows of traced
numbers, and a Hamiltonian of traced coefficients that is multiplied with a number.

Replaced: ``Operator.__init__``, and autoray's ``array``, ``asarray`` and ``multiply`` of lists.
Versions: 0.45.
Upstream: ``qml.math`` takes the library of what is in a list.
Installed: while a program is traced, and no longer.
Test: ``test_circuit_templates.py``.
"""

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

import autoray
import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop._patching import original

_lock = threading.Lock()
_tracing = 0
_taken_out = contextlib.ExitStack()


@contextlib.contextmanager
def allow_tracer_lists() -> Iterator[None]:
    """Let PennyLane's operations and its ``qml.math.array`` take such lists, while we trace."""
    global _tracing
    with _lock:
        if _tracing == 0:
            _install()
        _tracing += 1
    try:
        yield
    finally:
        with _lock:
            _tracing -= 1
            if _tracing == 0:
                _taken_out.close()


def _install() -> None:
    own = original(qml.operation.Operator, "__init__")

    @functools.wraps(own)
    def init(self: Any, *params: Any, **options: Any) -> None:
        own(self, *map(as_array, params), **options)

    qml.operation.Operator.__init__ = init
    _taken_out.callback(setattr, qml.operation.Operator, "__init__", own)
    for name in ("array", "asarray", "multiply"):
        for backend in ("builtins", "numpy"):
            known = autoray.get_lib_fn(backend, name)
            autoray.register_function(backend, name, functools.partial(_make, name))
            _taken_out.callback(autoray.register_function, backend, name, known)


def as_array(value: Any) -> Any:
    """Return a list that holds traced numbers as an array, and anything else as it is."""
    return jnp.array(value) if _has_tracer(value) else value


def _make(name: str, *values: Any, **options: Any) -> Any:
    if any(map(_has_tracer, values)):
        return getattr(jnp, name)(*map(as_array, values), **options)
    return getattr(np, name)(*values, **options)


def _has_tracer(value: Any) -> bool:
    if not isinstance(value, list | tuple):
        return False
    return any(isinstance(item, jax.core.Tracer) or _has_tracer(item) for item in value)
