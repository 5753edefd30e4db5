"""What is differentiated in a circuit: measurements, their operands and the tangents of these."""

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.interpreters import ad

from bellhop.base.types import Handle
from bellhop.callbacks.linear_map import Leaves, LinearMap
from bellhop.circuits.backends.compiled.differentiable.dynamic_count import (
    compute_perturbation_cotangent,
)
from bellhop.circuits.backends.compiled.differentiable.measurement_primitives import (
    MeasurementSet,
    MeasureOperands,
    Query,
    derivative_p,
    measure_p,
)
from bellhop.circuits.backends.compiled.differentiable.observable_derivatives import (
    ValueChange,
    iterate_data_changes,
)
from bellhop.circuits.backends.compiled.differentiable.score_function import SECOND_DERIVATIVE_ERROR
from bellhop.circuits.ir.diff_method import LIKELIHOOD_RATIO
from bellhop.circuits.ir.precision import real_type
from bellhop.circuits.ir.tangents import make_symbolic_zero
from bellhop.errors import DifferentiableCompileError

_SECOND_DERIVATIVE_WITH_SHOTS_ERROR = (
    "it is differentiated twice by the likelihood of samples, as on default.qubit with shots, "
    "behind outcomes that are drawn, and by the amplitudes of StatePrep; that gives the first "
    "derivative alone. Use a circuit without shots, or angles on lightning.qubit without outcomes."
)


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
    measuring: MeasurementSet
    n_params: int

    @classmethod
    def from_operands(
        cls, names: Sequence[str], primals: Leaves, tangents: Leaves, measuring: MeasurementSet
    ) -> "MeasurementJvp":
        """Return it: where amplitudes have a tangent, they are the last parameters."""
        of, moved = (MeasureOperands.from_names(names, each) for each in (primals, tangents))
        n_params = of.params.shape[-1]
        if _is_given(moved.amplitudes):
            assert measuring.differentiation.amplitude_differentiation is not None
            measuring = replace(
                measuring, differentiation=measuring.differentiation.amplitude_differentiation
            )
            moved = moved._replace(params=ad.instantiate_zeros(moved.params))
            of, moved = map(_with_amplitudes_last, (of, moved))
        return cls(of, moved, measuring, n_params)

    @classmethod
    def from_derivative_operands(
        cls, names: Sequence[str], primals: Leaves, tangents: Leaves, measuring: MeasurementSet
    ) -> "MeasurementJvp":
        """Return that of what is a derivative already.

        Raises:
            DifferentiableCompileError: where only now another method is needed.
        """
        jvp = cls.from_operands(names, primals, tangents, measuring)
        differentiation = jvp.measuring.differentiation
        if jvp.has_tangents and differentiation.method == LIKELIHOOD_RATIO:
            raise DifferentiableCompileError(
                SECOND_DERIVATIVE_ERROR
                if measuring.is_score
                else _SECOND_DERIVATIVE_WITH_SHOTS_ERROR
            )
        if differentiation.method != measuring.differentiation.method:
            raise DifferentiableCompileError(
                "it is differentiated by angles and then by the amplitudes of StatePrep, and the "
                "runtime's engine does not run it. Use diff_method='parameter-shift'."
            )
        if jvp.has_tangents and differentiation.obstacle:
            raise DifferentiableCompileError(differentiation.obstacle)
        return jvp

    @property
    def n_all_params(self) -> int:
        """How many parameters there are."""
        return self.primals.params.shape[-1]

    @property
    def has_amplitude_params(self) -> bool:
        """Whether amplitudes have become parameters."""
        return self.n_all_params > self.n_params

    def drop_amplitudes(self, derivative: Any, order: int) -> Any:
        """Return the part of a derivative that is by the other parameters alone."""
        return (
            derivative[(..., *[slice(self.n_params)] * order)]
            if self.has_amplitude_params
            else derivative
        )

    @property
    def tangents_by_name(self) -> dict[str, Any]:
        """The tangents other than zero, by name; the handle has none."""
        _, *tangents = self.tangents._asdict().items()
        return {name: dot for name, dot in tangents if dot is not None and _is_given(dot)}

    @property
    def has_tangents(self) -> bool:
        """Whether any operand has a tangent other than zero."""
        return bool(self.tangents_by_name)

    @property
    def has_gate_tangents(self) -> bool:
        """Whether the parameters of gates have such a tangent."""
        return self.params_tangent is not None or self.perturbation_tangent is not None

    @property
    def is_single_pass(self) -> bool:
        """Whether the tangents are the product of one sweep of the engine's."""
        by_sweep = self.measuring.differentiation.single_pass
        return (
            by_sweep and set(self.tangents_by_name) == {"params"} and not self.has_amplitude_params
        )

    @property
    def params_tangent(self) -> Any:
        """The tangent of the parameters; None where they have none."""
        return self.tangents_by_name.get("params")

    @property
    def perturbation_tangent(self) -> Any:
        """The tangent of the perturbation; None where it has none."""
        return self.tangents_by_name.get("perturbation")

    def bind_measurement(self, measuring: MeasurementSet, query: Query) -> list[Any]:
        """Return handle and results of a measurement, with the differentiation that this has."""
        own = replace(measuring, differentiation=self.measuring.differentiation)
        return self.primals.bind(measure_p, measuring=own, query=query)

    def compute_single_pass_tangents(self, measuring: MeasurementSet) -> list[Any]:
        """Return the tangents of values by the parameters, of which only the transpose is cheap."""
        operands = self.primals.to_dict()
        asked = functools.partial(_bind_measurement, tuple(operands), measuring)
        linear = LinearMap(
            lambda values, bars: asked(values, Query.VJP, cotangents=bars[0])[1:],
            lambda values, dots: [asked(values, Query.JACOBIAN)[-1] @ dots[0]],
            len(operands),
            (measuring.make_derivative_aval((), self.n_all_params, 0),),
        )
        return measuring.unflatten_results(
            linear(list(operands.values()), [self.params_tangent])[0]
        )

    def compute_second_tangents(self, measuring: MeasurementSet) -> list[Any]:
        """Return the tangents of expectation values and of their derivatives by the parameters.

        That of a derivative is a Hessian's product with ``params_dot``.  The Hessian of a value is
        symmetric, so what is transposed is the same, along the cotangents of the derivative; of
        several values, which have as many directions, nothing is.
        """
        operands = self.primals.to_dict()
        names = tuple(operands)

        def evaluate_both(values: Sequence[Any], direction: Any) -> Any:
            rows = _bind_measurement(
                names, measuring, values, Query.JACOBIAN_JVP, params_tangent=direction
            )[1]
            return rows[::2], rows[1::2]

        def evaluate(values: Sequence[Any], dots: Sequence[Any]) -> list[Any]:
            by, by_dot = evaluate_both(values, dots[0])
            return [by @ dots[0], by_dot]

        def transpose(values: Sequence[Any], bars: Sequence[Any]) -> list[Any]:
            value_bar, by_bar = bars
            assert len(by_bar) == 1
            by, by_dot = evaluate_both(values, by_bar[0])
            return [value_bar[0] * by[0] + by_dot[0]]

        linear = LinearMap(
            transpose,
            evaluate,
            len(operands),
            tuple(measuring.make_derivative_aval((), self.n_all_params, order) for order in (0, 1)),
        )
        dots, jacobian_dot = linear(list(operands.values()), [self.params_tangent])
        return [*measuring.unflatten_results(dots), jacobian_dot]

    def bind_derivative(
        self,
        handle: Handle,
        measuring: MeasurementSet,
        order: int,
        *,
        keep: bool = False,
        **others: Any,
    ) -> list[Any]:
        """Return handle, derivative by parameters, and the number of that by the perturbation.

        Args:
            handle: the handle of the state.
            measuring: what is differentiated.
            order: the order of the derivative.
            keep: whether the session keeps the first derivative by the perturbation.
            others: operands other than those that this has.
        """
        operands = self.primals._replace(**{"handle": handle, "saved": None, **others})
        again = measuring.prepare_rerun()
        return operands.bind(derivative_p, measuring=again, order=order, keep=keep)

    def differentiate_along_directions(
        self, handle: Handle, directions: Any, order: int, *, steps: Any, saved: Any = None
    ) -> Any:
        """Return the derivative by parameters and, in addition, in directions.

        Args:
            handle: the handle of the state.
            directions: tangents of the perturbation f64[rows, k]; one derivative of order k a row.
            order: the order of the derivative by parameters.
            steps: the number of gates and projections before it.
            saved: the number of the derivative where the session keeps it; then it can be
                transposed.
        """
        operands = self.primals._replace(handle=handle, steps=steps, saved=saved, directions=None)
        known = operands.to_dict()
        names = tuple(known)
        static = {"measuring": self.measuring.prepare_rerun(), "order": order, "keep": False}

        def evaluate(values: Sequence[Any], moving: Sequence[Any]) -> list[Any]:
            same = MeasureOperands.from_names(names, values)
            return same._replace(directions=moving[0]).bind(derivative_p, **static)[1:2]

        def transpose(values: Sequence[Any], bars: Sequence[Any]) -> list[Any]:
            same = MeasureOperands.from_names(names, values)
            return [compute_perturbation_cotangent(same.handle, same.saved, bars[0]).reshape(-1, 1)]

        if saved is None:
            return evaluate(list(known.values()), [directions])[0]
        result = self.measuring.make_derivative_aval(directions.shape[:1], self.n_all_params, order)
        linear = LinearMap(transpose, evaluate, len(known), (result,))
        return linear(list(known.values()), [directions])[0]

    def keep_tangents(self, *names: str) -> "MeasurementJvp":
        """Return the same, if only these operands had tangents."""
        primals, tangents = self.primals._asdict(), self.tangents._asdict()
        zeros = {
            name: make_symbolic_zero(primal)
            for name, primal in primals.items()
            if name not in names and primal is not None
        }
        return self._replace(tangents=MeasureOperands(**{**tangents, **zeros}))

    def find_data_changes(self) -> tuple[list[ValueChange], "MeasurementJvp"]:
        """Return how values change by the tangents of coefficients and of matrices.

        What comes with the changes has the measurements whose values they need, one after another,
        and then the means of variances among these.
        """
        dots = self.tangents_by_name.get("coefficients"), self.tangents_by_name.get("matrices")
        before = self.primals.coefficients
        changes = list(iterate_data_changes(self.measuring.measurements, before, *dots))
        terms = self.measuring.replace_measurements(
            [m for change in changes for m in change.measurements]
        )
        more = [jnp.asarray(change.coefficients, real_type()) for change in changes]
        primals = self.primals._replace(coefficients=jnp.concatenate([before, *more]))
        return changes, self._replace(primals=primals, measuring=terms.add_variance_means())


def _bind_measurement(
    names: Sequence[str],
    measuring: MeasurementSet,
    values: Sequence[Any],
    query: Query,
    **others: Any,
) -> list[Any]:
    """Return handle and results of a measurement of operands with these names.

    Rules of linear maps close over no operands: JAX keeps the rules longer than these.
    """
    same = MeasureOperands.from_names(names, values)._replace(**others)
    return same.bind(measure_p, measuring=measuring, query=query)


def _is_given(tangent: Any) -> bool:
    """Tell whether a tangent is an array with elements, not a symbolic zero."""
    return type(tangent) is not ad.Zero and tangent.size > 0


def _with_amplitudes_last(operands: Any) -> Any:
    """Return operands, or their tangents, whose amplitudes are the last of the parameters.

    Args:
        operands: a named tuple with ``params`` and ``amplitudes``.
    """
    params = jnp.concatenate([operands.params, operands.amplitudes])
    return operands._replace(params=params, amplitudes=jnp.zeros(0, real_type()))
