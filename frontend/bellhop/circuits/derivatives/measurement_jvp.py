"""What is differentiated in a circuit: measurements, their operands and the tangents of these."""

from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad

from bellhop.circuits.derivatives.diff_method import LIKELIHOOD_RATIO
from bellhop.circuits.derivatives.observable_derivatives import Change, changes_by_data
from bellhop.circuits.derivatives.tangents import is_given, with_amplitudes_last, zero_tangent
from bellhop.circuits.operations.measurement_primitives import (
    MeasureOperands,
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


class MeasurementJvp(NamedTuple):
    """What is differentiated.

    Attributes:
        primals: the operands of the measurement.
        tangents: of these.
        measuring: what is measured.
        n_params: how many parameters there were without the amplitudes.
    """

    primals: MeasureOperands
    tangents: MeasureOperands
    measuring: Measuring
    n_params: int

    @classmethod
    def of(
        cls, primals: MeasureOperands, tangents: MeasureOperands, measuring: Measuring
    ) -> "MeasurementJvp":
        """Return it: where amplitudes have a tangent, they are the last parameters."""
        n_params = primals.params.shape[-1]
        if not is_given(tangents.amplitudes):
            return cls(primals, tangents, measuring, n_params)
        assert measuring.differentiation.by_amplitudes is not None
        measuring = replace(measuring, differentiation=measuring.differentiation.by_amplitudes)
        tangents = tangents._replace(params=ad.instantiate_zeros(tangents.params))
        primals, tangents = map(with_amplitudes_last, (primals, tangents))
        return cls(primals, tangents, measuring, n_params)

    @classmethod
    def again(
        cls, primals: MeasureOperands, tangents: MeasureOperands, measuring: Measuring
    ) -> "MeasurementJvp":
        """Return that of what is a derivative already.

        Raises:
            DifferentiableCompileError: where only now another method is needed.
        """
        jvp = cls.of(primals, tangents, measuring)
        differentiation = jvp.measuring.differentiation
        if jvp.moves and differentiation.method == LIKELIHOOD_RATIO:
            raise DifferentiableCompileError(_TWICE)
        if differentiation.method != measuring.differentiation.method:
            raise DifferentiableCompileError(
                "it is differentiated by angles and then by the amplitudes of StatePrep, and the "
                "runtime's engine does not run it. Use diff_method='parameter-shift'."
            )
        if jvp.moves and differentiation.obstacle:
            raise DifferentiableCompileError(differentiation.obstacle)
        return jvp

    def own(self, measuring: Measuring) -> Measuring:
        """Return what is measured with the differentiation that this has."""
        return replace(measuring, differentiation=self.measuring.differentiation)

    @property
    def all_params(self) -> int:
        """How many parameters there are."""
        return self.primals.params.shape[-1]

    @property
    def has_more(self) -> bool:
        """Whether amplitudes have become parameters."""
        return self.all_params > self.n_params

    def without_amplitudes(self, derivative: Any, order: int) -> Any:
        """Return the part of a derivative that is by the other parameters alone."""
        return derivative[(..., *[slice(self.n_params)] * order)] if self.has_more else derivative

    @property
    def given(self) -> dict[str, Any]:
        """The tangents other than zero, by name; the handle has none."""
        _, *tangents = self.tangents._asdict().items()
        return {name: dot for name, dot in tangents if dot is not None and is_given(dot)}

    @property
    def moves(self) -> bool:
        """Whether any operand has a tangent other than zero."""
        return bool(self.given)

    @property
    def params_dot(self) -> Any:
        """The tangent of the parameters; None where they have none."""
        return self.given.get("params")

    @property
    def perturbation_dot(self) -> Any:
        """The tangent of the perturbation; None where it has none."""
        return self.given.get("perturbation")

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
            basis = np.zeros((0, self.all_params), real_type())
        operands = self.primals._replace(handle=handle).flat()
        static = measuring.run_again().params()
        return derivative_p.bind(*operands, basis, order=order, keep=keep, **static)

    def _with_tangents_of(self, *names: str) -> "MeasurementJvp":
        primals, tangents = self.primals._asdict(), self.tangents._asdict()
        zeros = {
            name: zero_tangent(primal)
            for name, primal in primals.items()
            if name not in names and primal is not None
        }
        return self._replace(tangents=MeasureOperands(**{**tangents, **zeros}))

    @property
    def by_data_alone(self) -> "MeasurementJvp":
        """The same, if only coefficients and matrices had tangents."""
        return self._with_tangents_of("coefficients", "matrices")

    @property
    def apart_from_data(self) -> "MeasurementJvp":
        """The same, if coefficients and matrices had no tangents."""
        return self._with_tangents_of("params", "amplitudes", "perturbation")

    def changes(self) -> tuple[list[Change], "MeasurementJvp"]:
        """Return how values change by the tangents of coefficients and of matrices.

        What comes with the changes has the measurements whose values they need, one after another,
        and then the means of variances among these.
        """
        dots = self.given.get("coefficients"), self.given.get("matrices")
        before = self.primals.coefficients
        changes = list(changes_by_data(self.measuring.measurements, before, *dots))
        terms = self.measuring.of([m for change in changes for m in change.measurements])
        more = [jnp.asarray(change.coefficients, real_type()) for change in changes]
        primals = self.primals._replace(coefficients=jnp.concatenate([before, *more]))
        return changes, self._replace(primals=primals, measuring=terms.with_means())

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
            *self.primals._replace(handle=handle).flat(),
            *place,
            directions,
            order=order,
            is_saved=place.saved is not NOT_SAVED,
            **measuring.run_again().params(),
        )
