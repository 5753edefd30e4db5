"""What is differentiated in a circuit: measurements, their data and its tangents."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad

from bellhop.circuits.derivatives.diff_method import LIKELIHOOD_RATIO
from bellhop.circuits.derivatives.observable_derivatives import Change, changes_by_data
from bellhop.circuits.derivatives.tangents import is_given, zero_tangent
from bellhop.circuits.operations.measurement_primitives import (
    Measuring,
    derivative_p,
    directional_derivative_p,
)
from bellhop.circuits.precision import real_type
from bellhop.errors import DifferentiableCompileError

NOT_SAVED = np.int32(-1)

_TWICE = (
    "it is differentiated by the amplitudes of StatePrep with shots, and twice; the likelihood of "
    "samples gives the first derivative alone. Use a circuit without shots."
)


class Place(NamedTuple):
    """The step of a circuit at which a derivative is taken.

    Attributes:
        steps: the number of gates and projections before it.
        saved: the number of the first derivative by the perturbation, if the session keeps it.
    """

    steps: Any
    saved: Any = NOT_SAVED


class Point(NamedTuple):
    """What is differentiated.

    Attributes:
        data: coefficients and matrices of observables, the parameters, the amplitudes that are not
            among them, and the perturbation if there is one.
        dots: their tangents.
        measuring: what is measured.
        n_params: how many parameters there were without the amplitudes.
    """

    data: Sequence[Any]
    dots: Sequence[Any]
    measuring: Measuring
    n_params: int

    @classmethod
    def of(cls, data: Sequence[Any], dots: Sequence[Any], measuring: Measuring) -> "Point":
        """Return a point: where amplitudes have a tangent, they are the last parameters."""
        n_params = data[2].shape[-1]
        if not is_given(dots[3]):
            return cls(data, dots, measuring, n_params)
        assert measuring.differentiation.by_amplitudes is not None
        measuring = replace(measuring, differentiation=measuring.differentiation.by_amplitudes)
        empty = jnp.zeros(0, real_type())
        data, dots = (
            [*each[:2], jnp.concatenate([each[2], each[3]]), empty, *each[4:]]
            for each in (data, [*dots[:2], ad.instantiate_zeros(dots[2]), *dots[3:]])
        )
        return cls(data, dots, measuring, n_params)

    @classmethod
    def again(cls, data: Sequence[Any], dots: Sequence[Any], measuring: Measuring) -> "Point":
        """Return the point of what is a derivative already.

        Raises:
            DifferentiableCompileError: where only now another method is needed.
        """
        point = cls.of(data, dots, measuring)
        if point.moves and point.measuring.differentiation.method == LIKELIHOOD_RATIO:
            raise DifferentiableCompileError(_TWICE)
        if point.measuring.differentiation.method != measuring.differentiation.method:
            raise DifferentiableCompileError(
                "it is differentiated by angles and then by the amplitudes of StatePrep, and the "
                "runtime's engine does not run it. Use diff_method='parameter-shift'."
            )
        if point.moves and point.measuring.differentiation.obstacle:
            raise DifferentiableCompileError(point.measuring.differentiation.obstacle)
        return point

    def own(self, measuring: Measuring) -> Measuring:
        """Return what is measured with the differentiation of the point."""
        return replace(measuring, differentiation=self.measuring.differentiation)

    @property
    def has_more(self) -> bool:
        """Whether amplitudes have become parameters."""
        return self.data[2].shape[-1] > self.n_params

    def without_amplitudes(self, derivative: Any, order: int) -> Any:
        """Return the part of a derivative that is by the other parameters alone."""
        return derivative[(..., *[slice(self.n_params)] * order)] if self.has_more else derivative

    @property
    def moves(self) -> bool:
        """Whether any operand has a tangent other than zero."""
        return any(map(is_given, self.dots))

    @property
    def moves_by_params_alone(self) -> bool:
        """Whether only the parameters have a tangent."""
        return [number for number, dot in enumerate(self.dots) if is_given(dot)] == [2]

    @property
    def params_dot(self) -> Any:
        """The tangent of the parameters; None where they have none."""
        return self.dots[2] if is_given(self.dots[2]) else None

    @property
    def perturbation_dot(self) -> Any:
        """The tangent of the perturbation; None where it has none."""
        return next(filter(is_given, self.dots[4:]), None)

    def derivative(
        self,
        handle: Any,
        measuring: Measuring,
        order: int,
        *,
        keep: bool = False,
        basis: Any = None,
    ) -> tuple[Any, Any, Any]:
        """Return handle, derivative by parameters, and the number of that by the perturbation.

        Args:
            handle: the handle of the state.
            measuring: what is differentiated.
            order: the order of the derivative.
            keep: whether the session keeps the first derivative by the perturbation.
            basis: the directions f64[q, p] of the derivative; None for the parameters themselves.
        """
        if basis is None:
            basis = np.zeros((0, self.data[2].shape[-1]), real_type())
        operands = *self.data[:4], basis, *self.data[4:]
        static = measuring.run_again().params()
        return derivative_p.bind(handle, *operands, order=order, keep=keep, **static)

    @property
    def by_data_alone(self) -> "Point":
        """The point, if only coefficients and matrices had tangents."""
        return self._replace(dots=[*self.dots[:2], *map(zero_tangent, self.data[2:])])

    @property
    def apart_from_data(self) -> "Point":
        """The point, if coefficients and matrices had no tangents."""
        return self._replace(dots=[*map(zero_tangent, self.data[:2]), *self.dots[2:]])

    def changes(self) -> tuple[list[Change], "Point"]:
        """Return how values change by the tangents of coefficients and of matrices.

        The point that comes with the changes has the measurements whose values they need, one after
        another, and then the means of variances among these.
        """
        dots = [dot if is_given(dot) else None for dot in self.dots[:2]]
        changes = list(changes_by_data(self.measuring.measurements, self.data[0], *dots))
        terms = self.measuring.of([m for change in changes for m in change.measurements])
        coefficients = [jnp.asarray(change.coefficients, real_type()) for change in changes]
        data = [jnp.concatenate([self.data[0], *coefficients]), *self.data[1:]]
        return changes, self._replace(data=data, measuring=terms.with_means())

    def along(
        self, handle: Any, place: "Place", directions: Any, measuring: Measuring, order: int
    ) -> Any:
        """Return a derivative by parameters and, in addition, in directions.

        Args:
            handle: the handle of the state.
            place: where in the circuit.
            directions: tangents of the perturbation f64[rows, k]; one derivative of order k a row.
            measuring: what is differentiated.
            order: the order of the derivative by parameters.
        """
        return directional_derivative_p.bind(
            handle,
            *self.data,
            *place,
            directions,
            order=order,
            is_saved=place.saved is not NOT_SAVED,
            **measuring.run_again().params(),
        )
