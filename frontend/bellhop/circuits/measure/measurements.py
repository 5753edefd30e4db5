"""From PennyLane's measurement processes to what a device measures, and the data of that."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml

from bellhop.circuits.measure.device_measurements import Expval, Measurement, Probs, State, Var
from bellhop.circuits.measure.observable_code import (
    Code,
    hermitian,
    named,
    product,
)
from bellhop.circuits.measure.observables import (
    Factor,
    Named,
    NoObservableError,
    as_sum_of_products,
)
from bellhop.circuits.precision import real_type
from bellhop.circuits.process_kind import kind
from bellhop.errors import CompileError


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
            self.measurements.append(State())
        elif isinstance(measurement, mp.ProbabilityMP):
            self.measurements.append(Probs(self._all(measurement.wires)))
        elif isinstance(measurement, mp.ExpectationMP):
            self._observable(Expval, measurement)
        elif isinstance(measurement, mp.VarianceMP):
            self._observable(Var, measurement)
        else:
            raise self._unsupported(kind(measurement))

    def add_weight(self) -> None:
        """Append the squared norm of the state."""
        self.measurements.append(Expval(terms=(product([]),)))

    def _unsupported(self, what: str) -> CompileError:
        return CompileError(
            f"{self._where}: {what}: not supported yet by bellhop. Measure expval, var, probs, "
            "state or density_matrix."
        )

    def _all(self, wires: Sequence[Any]) -> tuple[int, ...]:
        return tuple(self._wires(wire) for wire in wires)

    def _observable(self, kind: type[Expval | Var], measurement: Any) -> None:
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
            self.measurements.append(kind(terms))
            return
        start = len(self.coefficients)
        self.coefficients += coefficients
        self.measurements.append(kind(terms, start))

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


def _is_one(coefficient: Any) -> bool:
    return not isinstance(coefficient, jax.core.Tracer) and coefficient == 1.0
