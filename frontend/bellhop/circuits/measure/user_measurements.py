"""Support measurement classes that users derive from `SampleMeasurement`.

The class's `process_samples` gets the samples of the measurement's wires, in their order, as on
PennyLane's own devices; without wires, of all wires.  If it computes with JAX or `qml.math`, it is
traced; if it needs NumPy arrays, the program calls it in Python::

    class Parity(qml.measurements.SampleMeasurement):
        def process_samples(self, samples, wire_order, shot_range=None, bin_size=None):
            return qml.math.mean(1 - 2 * (qml.math.sum(samples, axis=-1) % 2))

If the result is a mean over shots, as here, it is differentiated by the frequencies of outcomes
(``sample_mean_derivative.py``).
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.arguments.declared_types import infer
from bellhop.callbacks.pure_callback import pure_callback
from bellhop.circuits.ir.statistics import ExactValues, Statistic
from bellhop.circuits.measure.measurement_base import Process
from bellhop.circuits.measure.sample_mean_derivative import (
    MAX_WIRES,
    SampleMean,
    split_groups,
)
from bellhop.circuits.measure.sampling import (
    DiagonalFactor,
    SamplingRounds,
    diagonalize_with_pennylane,
    make_computational_factor,
)

_NEEDS_NUMPY = jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError


class UserSampleProcess(Process):
    """Measures a user's class that is derived from PennyLane's `SampleMeasurement`."""

    def _request_exact(self, asked: ExactValues) -> Callable[[Any], Statistic]:
        """Raise an error, as the measurement needs shots."""
        raise self._needs_shots_error()

    def _request_samples(self, rounds: SamplingRounds) -> Callable[[Any], Statistic]:
        """Request samples, in the eigenbasis of the observable if any.

        Returns:
            a function from the result of ``rounds.sample()`` to a ``Statistic`` of the result of
            the user's ``process_samples``.
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
        # Bits come with a column for each qubit.
        columns = [self._wires(wire) for wire in measured]
        if self._answers.has_mid_circuit or len(columns) > MAX_WIRES:
            take = rounds.request_outcomes(diagonals)

            def finish(samples: Any) -> Any:
                """Call the user's ``process_samples`` with the bits of the measured wires."""
                return _process_samples(process, samples[..., np.array(columns)], measured)

            return lambda answers: Statistic(take(answers), finish, is_per_shot=True)
        return self._request_mean(rounds, diagonals, measured, columns)

    def _request_mean(
        self,
        rounds: SamplingRounds,
        diagonals: Sequence[DiagonalFactor],
        measured: qml.wires.Wires,
        columns: Sequence[int],
    ) -> Callable[[Any], Statistic]:
        """Request samples for ``process_samples``, and frequencies for its derivative.

        The result has a derivative if it is a mean over shots. The circuit must have no mid-circuit
        measurement: ``process_samples`` is called before executions are combined.

        Args:
            rounds: collects the samples that the circuit's processes request.
            diagonals: diagonal factors, in whose bases the wires are measured.
            measured: the measured wires.
            columns: the qubit index of each measured wire.

        Returns:
            a function from the result of ``rounds.sample()`` to a ``Statistic``.
        """
        process, groups = self.process, self._answers.groups
        parts = split_groups(groups)
        shares = parts / parts.sum(1, keepdims=True)
        take = rounds.request_outcomes(diagonals, is_processed=True)
        take_frequencies = rounds.request_frequencies(
            diagonals, columns, groups=parts.ravel().tolist()
        )
        evaluate_each = functools.partial(_process_each_sample, process, wire_order=measured)
        mean = SampleMean(evaluate_each, self._where, self._name)
        ends = np.cumsum(groups)

        def make_statistic(answers: Any) -> Statistic:
            """Call ``process_samples`` for each group of shots; make the statistic.

            Args:
                answers: the result of ``rounds.sample()``.
            """
            samples = take(answers)[..., np.array(columns)]
            results = [
                _process_samples(process, samples[end - shots : end], measured)
                for shots, end in zip(groups, ends, strict=True)
            ]
            frequencies = jnp.reshape(take_frequencies(answers), (*parts.shape, -1))
            stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *results)
            return Statistic((stacked, frequencies, jnp.asarray(shares)), finish)

        def finish(values: Any) -> Any:
            """Return the result of one group, with the derivative of a mean over shots."""
            result, *others = values
            return mean.add_derivative(result, *others)

        return make_statistic


def _process_each_sample(
    process: qml.measurements.SampleMeasurement, outcomes: Any, wire_order: qml.wires.Wires
) -> Any:
    """Call a user's `process_samples` on each row of ``outcomes``, as on a single shot.

    Args:
        process: the user's measurement.
        outcomes: integer array ``[outcomes, wires]``, a sample in each row.
        wire_order: the label of each column.

    Returns:
        array ``[outcomes, ...]``, the result for each row.
    """
    return jax.vmap(lambda row: _process_samples(process, row[None], wire_order))(outcomes)


def _process_samples(
    process: qml.measurements.SampleMeasurement, samples: Any, wire_order: qml.wires.Wires
) -> Any:
    """Call a user's `process_samples` on traced samples, or else in a callback.

    The callback is pure. It is used if `process_samples` needs NumPy arrays.

    Args:
        process: the user's measurement.
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
        process: the user's measurement.
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
        """Call the user's method on NumPy samples, and return a NumPy array."""
        return np.asarray(process.process_samples(np.asarray(samples), wire_order), dtype)

    process_samples.__name__ = f"{type(process).__name__}.process_samples"
    return pure_callback(process_samples, result)(samples)
