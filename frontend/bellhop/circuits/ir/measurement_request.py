"""One call of the runtime that measures: the measurements and the numbers of their observables."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from bellhop.circuits.ir.device_measurements import Measurement, SampleRequest, ShadowSnapshots
from bellhop.circuits.ir.precision import real_type
from bellhop.circuits.ir.vectorize.stack_scalars import stack_scalars
from bellhop.circuits.ir.wires import is_dynamic


@dataclass
class MeasurementRequest:
    """Measurements in order, with the coefficients and matrices of their observables.

    Attributes:
        measurements: the measurements.
        coefficients: scalars, the coefficients of all linear combinations.
        matrices: 1-D arrays of real numbers, the data of all matrices.
    """

    measurements: list[Measurement] = field(default_factory=list)
    coefficients: list[Any] = field(default_factory=list)
    matrices: list[Any] = field(default_factory=list)

    @classmethod
    def from_samples(cls, asked: Sequence[SampleRequest]) -> "MeasurementRequest":
        """Return the request of some results of one sample.

        Args:
            asked: the results; a seed of ``ShadowSnapshots`` becomes bases, which count as a
                matrix.
        """
        request = cls()
        for what in asked:
            bases = what.draw_bases() if isinstance(what, ShadowSnapshots) else None
            if isinstance(what, ShadowSnapshots) and bases is not None:
                what = replace(what, recipes=request.add_matrix(jnp.asarray(bases)))
            request.measurements.append(what)
        return request

    def add_matrix(self, numbers: Any) -> int:
        """Append the data of a matrix.

        Args:
            numbers: array of real numbers, of any shape.

        Returns:
            the index of the first number in ``stack_matrices()``.
        """
        start = sum(matrix.size for matrix in self.matrices)
        self.matrices.append(jnp.ravel(numbers).astype(real_type()))
        return start

    def stack_coefficients(self) -> Any:
        """Return the coefficients of all linear combinations as a 1-D array."""
        if not self.coefficients:
            return jnp.zeros(0, real_type())
        return stack_scalars([_to_real(coefficient) for coefficient in self.coefficients])

    def stack_matrices(self) -> Any:
        """Return the data of all matrices as a 1-D array."""
        return jnp.concatenate([jnp.zeros(0, real_type()), *self.matrices])


def _to_real(coefficient: Any) -> Any:
    """Return the real part of a scalar in the type of circuits' real numbers."""
    if not is_dynamic(coefficient):
        return np.asarray(np.real(coefficient), real_type())
    real = jnp.real(coefficient) if jnp.iscomplexobj(coefficient) else coefficient
    return real.astype(real_type())
