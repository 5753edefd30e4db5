"""Support measurement classes that users derive from `SampleMeasurement`.

The class's `process_samples` gets the samples of the measurement's wires, in their order, as on
PennyLane's own devices; without wires, of all wires.  If it computes with JAX or `qml.math`, it is
traced; if it needs NumPy arrays, the program calls it in Python::

    class Parity(qml.measurements.SampleMeasurement):
        def process_samples(self, samples, wire_order, shot_range=None, bin_size=None):
            return qml.math.mean(1 - 2 * (qml.math.sum(samples, axis=-1) % 2))
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.arguments.declared_types import infer
from bellhop.callbacks.pure_callback import pure_callback
from bellhop.circuits.ir.statistics import ExactValues, Statistic
from bellhop.circuits.measure.measurement_base import Process
from bellhop.circuits.measure.sampling import (
    SamplingRounds,
    diagonalize_with_pennylane,
    make_computational_factor,
)

_NEEDS_NUMPY = jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError


class UserSampleProcess(Process):
    """Measures a user's class that is derived from PennyLane's `SampleMeasurement`."""

    def _request_exact(self, asked: ExactValues) -> Callable[[Any], Statistic]:
        raise self._needs_shots_error()

    def _request_samples(self, rounds: SamplingRounds) -> Callable[[Any], Statistic]:
        """Request samples, in the eigenbasis of the observable if any.

        Returns:
            a function from the result of ``rounds.sample()`` to a ``Statistic``, whose ``finish``
            calls the user's ``process_samples``.
        """
        process = self.process
        measured = process.wires or qml.wires.Wires(self._wires.labels)
        diagonals = [make_computational_factor(measured)]
        if process.obs is not None:
            diagonals = diagonalize_with_pennylane(process.obs, self._where)
            rotated = {wire for diagonal in diagonals for wire in diagonal.wires}
            diagonals.append(
                make_computational_factor([wire for wire in measured if wire not in rotated])
            )
        take = rounds.request_outcomes(diagonals)
        # Bits come with a column for each qubit.
        columns = np.array([self._wires(wire) for wire in measured])

        def finish(samples: Any) -> Any:
            """Call the class with the columns of the measured wires."""
            return _process_samples(process, samples[..., columns], measured)

        return lambda answers: Statistic(take(answers), finish, is_per_shot=True)


def _process_samples(
    process: qml.measurements.SampleMeasurement, samples: Any, wire_order: qml.wires.Wires
) -> Any:
    """Call a user's `process_samples` on samples, traced if possible.

    If it needs NumPy arrays, the program calls it in a pure callback.

    Args:
        samples: array ``[shots, wires]``, the bits of each shot.
        wire_order: the label of each column.

    Returns:
        the result of `process_samples`, as JAX arrays.
    """
    samples = samples.astype(int)
    try:
        result = process.process_samples(samples, wire_order)
    except _NEEDS_NUMPY:
        return _process_in_python(process, samples, wire_order)
    return jax.tree.map(jnp.asarray, result)


def _process_in_python(
    process: qml.measurements.SampleMeasurement, samples: Any, wire_order: qml.wires.Wires
) -> Any:
    """Call a user's `process_samples` on NumPy samples, in a pure callback.

    The result type is the class's `shape` and `numeric_type`; if it does not define them, the type
    of the result for samples of zeros.

    Args:
        samples: traced integer array ``[shots, wires]``, the bits of each shot.
        wire_order: the label of each column.

    Returns:
        the result of `process_samples`, traced arrays.
    """
    dtype, result = None, infer
    try:
        dtype = jax.dtypes.canonicalize_dtype(process.numeric_type)
        shape = process.shape(shots=len(samples), num_device_wires=len(wire_order))
        result = jax.ShapeDtypeStruct(shape, dtype)
    except qml.exceptions.QuantumFunctionError:
        pass

    def process_samples(samples: np.ndarray) -> np.ndarray:
        return np.asarray(process.process_samples(np.asarray(samples), wire_order), dtype)

    process_samples.__name__ = f"{type(process).__name__}.process_samples"
    return pure_callback(process_samples, result)(samples)
