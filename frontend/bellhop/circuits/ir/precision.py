"""The precision of circuits: of the numbers in them, and of their results.

The engine keeps amplitudes in the precision that ``ir/device_spec.py`` says, and computes in double
precision whatever it sums over them.  The program gives it numbers of the types that it has,
which are single where JAX's 64-bit types are off; what lies between converts
(``bellhop_mlir.dialects.quantum``).  In a program that has both, a circuit computes in double
precision, and its results are as precise as the numbers that it is made of.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.tracing.state import current_options

if TYPE_CHECKING:
    import pennylane as qml


def real_type() -> np.dtype:
    """Return the type of the real numbers of circuits."""
    return np.dtype(jax.dtypes.canonicalize_dtype(np.float64))


def is_double() -> bool:
    """Tell whether the numbers of circuits are in double precision."""
    return real_type() == np.float64


def complex_type() -> np.dtype:
    """Return the type of their complex numbers."""
    return np.dtype(jax.dtypes.canonicalize_dtype(np.complex128))


class Precision:
    """The precision of a circuit's results: that of the numbers that it is made of.

    These are the parameters of its operations and the numbers in its observables, as the quantum
    function has them; what a circuit only carries does not count.  Neither do integers, constants
    of Python's and NumPy's, and what is computed of these alone.  Without any that count, the
    precision is double.
    """

    def __init__(self) -> None:
        self._bits = 0

    def include(self, numbers: Any) -> None:
        """Count the numbers in a pytree."""
        for value in jax.tree.leaves(numbers):
            if isinstance(value, jax.Array) and _is_inexact(value) and not value.weak_type:
                self._bits = max(self._bits, jnp.finfo(value.dtype).bits)

    @property
    def is_single(self) -> bool:
        """Whether it is single: some numbers count, and all of these are."""
        return 0 < self._bits <= 32

    def cast_result(self, result: Any) -> Any:
        """Return the result of a measurement, a pytree of arrays, in this precision."""
        return to_single_precision(result) if self.is_single else result


def to_single_precision(result: Any) -> Any:
    """Return a pytree of arrays, those of inexact numbers in single precision."""

    def cast_leaf(value: Any) -> Any:
        if not _is_inexact(value):
            return value
        return jnp.asarray(value, jnp.complex64 if jnp.iscomplexobj(value) else jnp.float32)

    return jax.tree.map(cast_leaf, result)


def _is_inexact(value: Any) -> bool:
    return is_inexact_type(getattr(value, "dtype", None) or jnp.result_type(value))


def get_state_bits(device: qml.devices.Device) -> int:
    """Return the bits of the real numbers of a circuit's states in the engine.

    They are what the program asks for, or else the device, or else JAX's 64-bit types.
    """
    options = current_options()
    asked = options.precision if options else None
    if asked is None:
        asked = "single" if has_single_precision(device) or not is_double() else "double"
    return 32 if asked == "single" else 64


def has_single_precision(device: qml.devices.Device) -> bool:
    """Tell whether the states of a device were asked to be in half the precision."""
    return getattr(device, "c_dtype", np.complex128) == np.complex64


# Gates have numbers of few types, and many a number.
@functools.cache
def is_inexact_type(dtype: Any) -> bool:
    """Return whether a dtype is of floating-point or complex numbers."""
    return bool(jnp.issubdtype(dtype, jnp.inexact))
