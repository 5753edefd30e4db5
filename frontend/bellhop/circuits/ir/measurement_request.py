"""``MeasurementRequest``: the measurements of one call of the runtime."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from bellhop.circuits.ir.device_measurements import Measurement, SampleRequest, ShadowSnapshots
from bellhop.circuits.ir.precision import Precision
from bellhop.circuits.ir.vectorize.stack_scalars import stack_scalars
from bellhop.circuits.ir.wires import is_dynamic


@dataclass
class MeasurementRequest:
    """Measurements of one runtime call, with their coefficients and matrices.

    Measurement code appends to the lists; the backend then performs all measurements together.
    Coefficients and matrices may be traced; the measurements, which are static, refer to them by
    index.

    Attributes:
        measurements: the measurements, in the order of the results.
        coefficients: scalars, the coefficients of all linear combinations.
        matrices: 1-D real arrays, the entries of each matrix.
    """

    measurements: list[Measurement] = field(default_factory=list)
    coefficients: list[Any] = field(default_factory=list)
    matrices: list[Any] = field(default_factory=list)

    @classmethod
    def from_samples(cls, requests: Sequence[SampleRequest]) -> "MeasurementRequest":
        """Build a request for results that are all computed from one sample.

        Args:
            requests: the measurements. The bases of ``ShadowSnapshots`` with a seed are drawn here
                and stored as a matrix.

        Returns:
            a new request with the measurements in order; a ``ShadowSnapshots`` with a seed is
            replaced by a copy with ``bases_offset``.
        """
        request = cls()
        for measurement in requests:
            bases = measurement.draw_bases() if isinstance(measurement, ShadowSnapshots) else None
            if isinstance(measurement, ShadowSnapshots) and bases is not None:
                offset = request.add_matrix(jnp.asarray(bases))
                measurement = replace(measurement, bases_offset=offset)
            request.measurements.append(measurement)
        return request

    def add_matrix(self, numbers: Any) -> int:
        """Append the entries of a matrix to this request.

        Args:
            numbers: real array of any shape; a complex matrix is passed as interleaved real and
                imaginary parts.

        Returns:
            the offset of the matrix's first entry in ``stack_matrices()``.
        """
        start = sum(matrix.size for matrix in self.matrices)
        self.matrices.append(jnp.ravel(numbers).astype(Precision.real_type()))
        return start

    def stack_coefficients(self) -> Any:
        """Return the coefficients of all linear combinations as a 1-D array."""
        if not self.coefficients:
            return jnp.zeros(0, Precision.real_type())
        return stack_scalars([_to_real(coefficient) for coefficient in self.coefficients])

    def stack_matrices(self) -> Any:
        """Return the entries of all matrices, concatenated to a 1-D array."""
        return jnp.concatenate([jnp.zeros(0, Precision.real_type()), *self.matrices])


def _to_real(coefficient: Any) -> Any:
    """Cast the real part of a scalar to ``Precision.real_type()``.

    A number becomes a NumPy array, a tracer stays a tracer.
    """
    if not is_dynamic(coefficient):
        return np.asarray(np.real(coefficient), Precision.real_type())
    real = jnp.real(coefficient) if jnp.iscomplexobj(coefficient) else coefficient
    return real.astype(Precision.real_type())
