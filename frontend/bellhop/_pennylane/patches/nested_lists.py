"""Allow lists of tracers as parameters of PennyLane operations.

PennyLane converts lists to arrays by NumPy, which fails for JAX's tracers.  So
``circuit([0.1, 0.2])`` would fail in a template, and so would a unitary given as nested lists of
tracers, and a product of a scalar and a Hamiltonian with traced coefficients.

Replaced: ``Operator.__init__``, and autoray's ``array``, ``asarray`` and ``multiply`` of lists.
Versions: 0.45.
Upstream: a choice of the library in ``qml.math`` by a list's elements.
Issue: none reported.
Installed: only while a program is traced.
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
_restore = contextlib.ExitStack()


@contextlib.contextmanager
def allow_tracer_lists() -> Iterator[None]:
    """Make PennyLane's operations and ``qml.math.array`` accept lists of tracers.

    The replaced functions are active in all threads while any thread is in the ``with`` block.
    """
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
                _restore.close()


def _install() -> None:
    """Patch PennyLane's operators to accept lists with tracers: ``RX([x, y], 0)``.

    ``Operator.__init__``, and autoray's ``array``, ``asarray`` and ``multiply`` for lists and for
    NumPy, are replaced by functions that first convert a nested list with tracers to a JAX array.
    Closing the exit stack `_restore` puts the original functions back.
    """
    own = original(qml.operation.Operator, "__init__")

    @functools.wraps(own)
    def init(self: Any, *params: Any, **options: Any) -> None:
        """Initialize an operator, with lists of tracers among `params` as arrays."""
        own(self, *map(as_array, params), **options)

    qml.operation.Operator.__init__ = init
    _restore.callback(setattr, qml.operation.Operator, "__init__", own)
    for name in ("array", "asarray", "multiply"):
        for backend in ("builtins", "numpy"):
            known = autoray.get_lib_fn(backend, name)
            autoray.register_function(backend, name, functools.partial(_call_numpy_or_jax, name))
            _restore.callback(autoray.register_function, backend, name, known)


def as_array(value: Any) -> Any:
    """Convert a nested list that contains tracers to a JAX array.

    All other values are returned unchanged.
    """
    return jnp.array(value) if _has_tracer(value) else value


def _call_numpy_or_jax(name: str, *values: Any, **options: Any) -> Any:
    """Call ``jnp.<name>`` if an argument is a list with tracers, else ``np.<name>``.

    Args:
        name: name of the function, such as ``"array"``.
        *values: array arguments of the function: nested lists, numbers or arrays.
        **options: keyword arguments of the function.
    """
    if any(map(_has_tracer, values)):
        return getattr(jnp, name)(*map(as_array, values), **options)
    return getattr(np, name)(*values, **options)


def _has_tracer(value: Any) -> bool:
    """Return whether a nested list contains a tracer."""
    if not isinstance(value, list | tuple):
        return False
    return any(isinstance(item, jax.core.Tracer) or _has_tracer(item) for item in value)
