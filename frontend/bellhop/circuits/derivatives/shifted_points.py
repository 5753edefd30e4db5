"""Measurements at points where parameters are shifted, and the operands that say where.

The operands are ``coefficients, matrices, params, index, amount, *proxy``.  Point ``p`` adds
``amount[p, m]`` to the parameter ``index[p, m]`` for each ``m``.  A derivative by parameter shift
takes points with one more ``m``: for 2 parameters and the rule of ``RX``::

    index [[]] amount [[]]
      ->  index [[0], [1], [0], [1]]  amount [[pi/2], [pi/2], [-pi/2], [-pi/2]]
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp

from bellhop.circuits.derivatives.diff_method import BY_DIFFERENCES, Differentiation
from bellhop.circuits.derivatives.observable_derivatives import Change, changes_by_data
from bellhop.circuits.derivatives.tangents import is_given
from bellhop.circuits.gates.device import DeviceSpec
from bellhop.circuits.measure.device_measurements import Measurement
from bellhop.circuits.operations.measurement_primitives import replay_p
from bellhop.errors import DifferentiableCompileError

DIFFERENCES_OF_DIFFERENCES = (
    "it is differentiated twice, and finite differences of finite differences are mostly rounding "
    "errors. Use diff_method='best' or 'parameter-shift'."
)


@dataclass(frozen=True)
class Measuring:
    """The static parameters of all primitives that measure."""

    measurements: tuple[Measurement, ...]
    device: DeviceSpec
    differentiation: Differentiation

    def params(self) -> dict[str, Any]:
        """Return these as keyword arguments of ``bind``."""
        return {
            "measurements": self.measurements,
            "device": self.device,
            "differentiation": self.differentiation,
        }

    def of(self, measurements: Sequence[Measurement]) -> "Measuring":
        """Return the same with other measurements."""
        return replace(self, measurements=tuple(measurements))

    def means(self) -> list[Measurement]:
        """Return the expectation value for each variance."""
        return [mean for m in self.measurements if (mean := m.mean()) is not None]

    def with_means(self) -> "Measuring":
        """Return the same with the means of variances as well, which come last."""
        return self.of([*self.measurements, *self.means()])


def all_shifts(operands: Sequence[Any], measuring: Measuring) -> tuple[Any, Sequence[Any]]:
    """Return the shift rule, and the operands with each point shifted by each of its shifts."""
    coefficients, matrices, params, index, amount, *proxy = operands
    refuse_differences_of_differences(measuring.differentiation, index.shape[1])
    rule = measuring.differentiation.rule(params.shape[0])

    def product(rows: Any, terms: Any) -> Any:
        n_rows, n_terms = rows.shape[0], terms.shape[0]
        repeated = jnp.repeat(rows, n_terms, axis=0)
        return jnp.concatenate([repeated, jnp.tile(terms, (n_rows, 1))], axis=1)

    points = map(product, (index, amount), rule.points())
    return rule, (coefficients, matrices, params, *points, *proxy)


def refuse_differences_of_differences(differentiation: Differentiation, order: int) -> None:
    """Refuse finite differences of what is a derivative of an order already."""
    if differentiation.method in BY_DIFFERENCES and order > 0:
        raise DifferentiableCompileError(DIFFERENCES_OF_DIFFERENCES)


def means_at(handle: Any, operands: Sequence[Any], measuring: Measuring) -> tuple[Any, list[Any]]:
    """Return the expectation values of what there are variances of, at each point."""
    if not measuring.means():
        return handle, []
    handle, *means = replay_p.bind(handle, *operands, **measuring.of(measuring.means()).params())
    return handle, means


def data_changes(
    measuring: Measuring, operands: Sequence[Any], tangents: Sequence[Any]
) -> list[Change]:
    """Return the changes by the tangents of coefficients and of matrices."""
    dots = [dot if is_given(dot) else None for dot in tangents]
    return list(changes_by_data(measuring.measurements, operands[0], *dots))
