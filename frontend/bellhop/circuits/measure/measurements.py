"""From PennyLane measurements to the runtime's codes and the data that goes with them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.circuits.gates.device import DeviceSpec
from bellhop.circuits.measure.observable_code import (
    Code,
    hermitian,
    linear_combination,
    named,
    product,
    with_matrices_after,
)
from bellhop.circuits.measure.observables import (
    Factor,
    Named,
    NoObservableError,
    as_sum_of_products,
)
from bellhop.circuits.precision import complex_type, real_type
from bellhop.errors import CompileError

# The numbers of runtime/contract.toml.
EXPVAL, VAR, PROBS, STATE, SAMPLE, FREQUENCIES = range(6)


@dataclass(frozen=True)
class Measurement:
    """One measurement, with all of it that is static.

    Attributes:
        kind: one of the numbers above.
        wires: for ``PROBS`` and ``SAMPLE``, where none means all, and ``FREQUENCIES``.
        terms: the observable's terms, each the code of a product; the data of a matrix are
            counted from the first matrix of the circuit.
        coefficients: first index of the terms' coefficients, or None where the observable is
            its only term.
        signs: for ``FREQUENCIES``, the wires whose ones change the sign.
        groups: for ``FREQUENCIES``, the shots of each group.
    """

    kind: int
    wires: tuple[int, ...] = ()
    terms: tuple[Code, ...] = ()
    coefficients: int | None = None
    signs: tuple[int, ...] = ()
    groups: tuple[int, ...] = ()

    def code(self, first_matrix: int) -> tuple[int, ...]:
        """Return the runtime's code of the measurement.

        Args:
            first_matrix: where the data of matrices begin.
        """
        if self.kind == STATE:
            return (STATE,)
        if self.kind in (PROBS, SAMPLE):
            return (self.kind, *_list(self.wires))
        if self.kind == FREQUENCIES:
            return (self.kind, *_list(self.wires), *_list(self.signs), *_list(self.groups))
        terms = [with_matrices_after(first_matrix, term) for term in self.terms]
        if self.coefficients is None:
            return (self.kind, *terms[0])
        return (self.kind, *linear_combination(terms, self.coefficients))

    def result_shape(self, device: DeviceSpec) -> tuple[tuple[int, ...], Any]:
        """Return shape and dtype of the result."""
        qubits = device.qubits
        if self.kind == SAMPLE:
            return (device.shots, len(self.wires) or qubits), np.uint8
        if self.kind == FREQUENCIES:
            return (len(self.groups), 2 ** len(self.wires)), real_type()
        if self.kind == STATE:
            return (2**qubits,), complex_type()
        if self.kind == PROBS:
            return (2 ** (len(self.wires) or qubits),), real_type()
        return (), real_type()


class MeasurementList:
    """Measurements of a circuit in order, with their coefficients and matrices."""

    def __init__(self, wires: Callable[[Any], int], where: str) -> None:
        self._wires = wires
        self._where = where
        self.measurements: list[Measurement] = []
        self.coefficients: list[Any] = []
        self.matrices: list[Any] = []

    def add(self, measurement: Any) -> None:
        """Append a PennyLane measurement process.

        Raises:
            CompileError: for kinds of measurements that are not supported.
        """
        mp = qml.measurements
        if isinstance(measurement, mp.StateMP) and not isinstance(measurement, mp.DensityMatrixMP):
            self.measurements.append(Measurement(STATE))
        elif isinstance(measurement, mp.ProbabilityMP):
            self.measurements.append(Measurement(PROBS, wires=self._all(measurement.wires)))
        elif isinstance(measurement, mp.ExpectationMP):
            self._observable(EXPVAL, measurement)
        elif isinstance(measurement, mp.VarianceMP):
            self._observable(VAR, measurement)
        else:
            raise self._unsupported(f"the measurement {type(measurement).__name__}")

    def add_weight(self) -> None:
        """Append the squared norm of the state."""
        self.measurements.append(Measurement(EXPVAL, terms=(product([]),)))

    def _unsupported(self, what: str) -> CompileError:
        return CompileError(
            f"{self._where}: {what}: not supported yet by bellhop. Measure expval, var, probs or "
            "state."
        )

    def _all(self, wires: Sequence[Any]) -> tuple[int, ...]:
        return tuple(self._wires(wire) for wire in wires)

    def _observable(self, kind: int, measurement: Any) -> None:
        if measurement.obs is None:
            raise self._unsupported("expval and var by eigenvalues alone")
        try:
            with qml.QueuingManager.stop_recording():
                sum_of_products = as_sum_of_products(measurement.obs)
        except NoObservableError as error:
            raise self._unsupported(f"the observable {error}") from None
        coefficients = [coefficient for coefficient, _ in sum_of_products]
        terms = tuple(product(list(map(self._factor, factors))) for _, factors in sum_of_products)
        if len(terms) == 1 and _is_one(coefficients[0]):
            self.measurements.append(Measurement(kind, terms=terms))
            return
        start = len(self.coefficients)
        self.coefficients += coefficients
        self.measurements.append(Measurement(kind, terms=terms, coefficients=start))

    def _factor(self, factor: Factor) -> Code:
        wires = self._all(factor.wires)
        if isinstance(factor, Named):
            return named(factor.name, *wires)
        start = sum(matrix.size for matrix in self.matrices)
        interleaved = jnp.stack([jnp.real(factor.matrix), jnp.imag(factor.matrix)], axis=-1)
        self.matrices.append(jnp.ravel(interleaved).astype(real_type()))
        return hermitian(wires, start)

    def coefficient_vector(self) -> Any:
        """Return the coefficients of linear combinations as one vector."""
        if not self.coefficients:
            return jnp.zeros(0, real_type())
        return jnp.stack([jnp.real(c).astype(real_type()) for c in self.coefficients])

    def matrix_vector(self) -> Any:
        """Return the data of Hermitian matrices as one vector."""
        return jnp.concatenate([jnp.zeros(0, real_type()), *self.matrices])


def _list(numbers: tuple[int, ...]) -> tuple[int, ...]:
    return (len(numbers), *numbers)


def _is_one(coefficient: Any) -> bool:
    return not isinstance(coefficient, jax.core.Tracer) and coefficient == 1.0
