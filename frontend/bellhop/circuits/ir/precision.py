"""The precision of circuits: of their parameters, amplitudes and results.

The engine stores amplitudes in the precision of ``DeviceSpec.precision``, and computes sums over
amplitudes in double precision.  Parameters from the program are in single precision if
``jax_enable_x64`` is off; ``bellhop_mlir.dialects.quantum`` converts them.  With 64-bit types, a
circuit computes in double precision, and its results have the precision of its parameters.
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


class Precision:
    """Infers the precision of a circuit's results from its parameters.

    Each circuit has an instance, to which ``include`` adds parameters while the circuit is traced.
    Results are in single precision if all traced floating-point parameters of operations and
    observables are.  Integers, Python and NumPy constants, weakly typed values and values that the
    circuit only carries do not count.  Without parameters that count, results are in double
    precision.

    The static methods do not depend on the instance: they answer for the process or for a device.
    """

    def __init__(self) -> None:
        self._bits = 0

    def include(self, numbers: Any) -> None:
        """Add parameters whose dtypes determine the precision of the results.

        Args:
            numbers: pytree of parameters. Only floating-point and complex JAX arrays that are not
                weakly typed count.
        """
        for value in jax.tree.leaves(numbers):
            if isinstance(value, jax.Array) and _is_inexact(value) and not value.weak_type:
                self._bits = max(self._bits, jnp.finfo(value.dtype).bits)

    @property
    def is_single(self) -> bool:
        """Whether results are in single precision.

        True if some parameters count (see the class), and all of these are in single precision.
        """
        return 0 < self._bits <= 32

    def cast_result(self, result: Any) -> Any:
        """Cast a measurement's result, a pytree, to single precision if ``is_single``.

        Otherwise it is returned unchanged.
        """
        return to_single_precision(result) if self.is_single else result

    @staticmethod
    def real_type() -> np.dtype:
        """Return the dtype of real numbers: float64, or float32 without x64."""
        return np.dtype(jax.dtypes.canonicalize_dtype(np.float64))

    @staticmethod
    def complex_type() -> np.dtype:
        """Return the dtype of complex results: complex128, or complex64 without x64."""
        return np.dtype(jax.dtypes.canonicalize_dtype(np.complex128))

    @staticmethod
    def is_double() -> bool:
        """Return whether ``real_type()`` is float64 (JAX's x64 mode is on)."""
        return Precision.real_type() == np.float64

    # Cached, since circuits have many parameters of few dtypes.
    @staticmethod
    @functools.cache
    def is_inexact(dtype: Any) -> bool:
        """Return whether a dtype is floating-point or complex."""
        return bool(jnp.issubdtype(dtype, jnp.inexact))

    @staticmethod
    def is_single_device(device: qml.devices.Device) -> bool:
        """Return whether a PennyLane device was created with complex64 amplitudes."""
        return getattr(device, "c_dtype", np.complex128) == np.complex64

    @staticmethod
    def get_state_bits(device: qml.devices.Device) -> int:
        """Return the precision in which the engine stores amplitudes on a device.

        The option ``precision`` of ``qjit`` decides; without it the device's ``c_dtype``; without
        this ``jax_enable_x64``.

        Returns:
            32 or 64, the bits of the real part of an amplitude.
        """
        options = current_options()
        precision = options.precision if options else None
        if precision is None:
            is_single = Precision.is_single_device(device) or not Precision.is_double()
            precision = "single" if is_single else "double"
        return 32 if precision == "single" else 64


def to_single_precision(result: Any) -> Any:
    """Cast the floating-point and complex leaves of a pytree to float32 and complex64.

    Integers and booleans are returned unchanged.
    """

    def cast_leaf(value: Any) -> Any:
        if not _is_inexact(value):
            return value
        return jnp.asarray(value, jnp.complex64 if jnp.iscomplexobj(value) else jnp.float32)

    return jax.tree.map(cast_leaf, result)


def _is_inexact(value: Any) -> bool:
    return Precision.is_inexact(getattr(value, "dtype", None) or jnp.result_type(value))
