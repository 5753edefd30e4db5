"""What is differentiated in a circuit: measurements, their operands and the tangents of these."""

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.interpreters import ad

from bellhop.base.types import Handle
from bellhop.callbacks.linear_map import Leaves, LinearMap
from bellhop.circuits.backends.compiled.differentiable.dynamic_count import perturbation_bar
from bellhop.circuits.backends.compiled.differentiable.measurement_primitives import (
    MeasureOperands,
    Measuring,
    Query,
    derivative_p,
    measure_p,
)
from bellhop.circuits.backends.compiled.differentiable.observable_derivatives import (
    Change,
    changes_by_data,
)
from bellhop.circuits.backends.compiled.differentiable.score_function import TWICE
from bellhop.circuits.ir.diff_method import LIKELIHOOD_RATIO
from bellhop.circuits.ir.precision import real_type
from bellhop.circuits.ir.tangents import symbolic_zero
from bellhop.errors import DifferentiableCompileError

_TWICE_WITH_SHOTS = (
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
    measuring: Measuring
    n_params: int

    @classmethod
    def of(
        cls, names: Sequence[str], primals: Leaves, tangents: Leaves, measuring: Measuring
    ) -> "MeasurementJvp":
        """Return it: where amplitudes have a tangent, they are the last parameters."""
        of, moved = (MeasureOperands.named(names, each) for each in (primals, tangents))
        n_params = of.params.shape[-1]
        if _is_given(moved.amplitudes):
            assert measuring.differentiation.by_amplitudes is not None
            measuring = replace(measuring, differentiation=measuring.differentiation.by_amplitudes)
            moved = moved._replace(params=ad.instantiate_zeros(moved.params))
            of, moved = map(_with_amplitudes_last, (of, moved))
        return cls(of, moved, measuring, n_params)

    @classmethod
    def again(
        cls, names: Sequence[str], primals: Leaves, tangents: Leaves, measuring: Measuring
    ) -> "MeasurementJvp":
        """Return that of what is a derivative already.

        Raises:
            DifferentiableCompileError: where only now another method is needed.
        """
        jvp = cls.of(names, primals, tangents, measuring)
        differentiation = jvp.measuring.differentiation
        if jvp.moves and differentiation.method == LIKELIHOOD_RATIO:
            raise DifferentiableCompileError(TWICE if measuring.is_score else _TWICE_WITH_SHOTS)
        if differentiation.method != measuring.differentiation.method:
            raise DifferentiableCompileError(
                "it is differentiated by angles and then by the amplitudes of StatePrep, and the "
                "runtime's engine does not run it. Use diff_method='parameter-shift'."
            )
        if jvp.moves and differentiation.obstacle:
            raise DifferentiableCompileError(differentiation.obstacle)
        return jvp

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
        return {name: dot for name, dot in tangents if dot is not None and _is_given(dot)}

    @property
    def moves(self) -> bool:
        """Whether any operand has a tangent other than zero."""
        return bool(self.given)

    @property
    def moves_by_gates(self) -> bool:
        """Whether the parameters of gates have such a tangent."""
        return self.params_dot is not None or self.perturbation_dot is not None

    @property
    def is_by_sweep(self) -> bool:
        """Whether the tangents are the product of one sweep of the engine's."""
        by_sweep = self.measuring.differentiation.by_sweep
        return by_sweep and set(self.given) == {"params"} and not self.has_more

    @property
    def params_dot(self) -> Any:
        """The tangent of the parameters; None where they have none."""
        return self.given.get("params")

    @property
    def perturbation_dot(self) -> Any:
        """The tangent of the perturbation; None where it has none."""
        return self.given.get("perturbation")

    def measure(self, measuring: Measuring, query: Query) -> list[Any]:
        """Return handle and results of a measurement, with the differentiation that this has."""
        own = replace(measuring, differentiation=self.measuring.differentiation)
        return self.primals.bind(measure_p, measuring=own, query=query)

    def by_sweep(self, measuring: Measuring) -> list[Any]:
        """Return the tangents of values by the parameters, of which only the transpose is cheap."""
        operands = self.primals.given()
        asked = functools.partial(_asked, tuple(operands), measuring)
        linear = LinearMap(
            lambda values, bars: asked(values, Query.VJP, cotangents=bars[0])[1:],
            lambda values, dots: [asked(values, Query.JACOBIAN)[-1] @ dots[0]],
            len(operands),
            (measuring.derivative((), self.all_params, 0),),
        )
        return measuring.results(linear(list(operands.values()), [self.params_dot])[0])

    def along(self, measuring: Measuring) -> list[Any]:
        """Return the tangents of expectation values and of their derivatives by the parameters.

        That of a derivative is a Hessian's product with ``params_dot``.  The Hessian of a value is
        symmetric, so what is transposed is the same, along the cotangents of the derivative; of
        several values, which have as many directions, nothing is.
        """
        operands = self.primals.given()
        names = tuple(operands)

        def both(values: Sequence[Any], direction: Any) -> Any:
            rows = _asked(names, measuring, values, Query.ALONG, params_dot=direction)[1]
            return rows[::2], rows[1::2]

        def evaluate(values: Sequence[Any], dots: Sequence[Any]) -> list[Any]:
            by, by_dot = both(values, dots[0])
            return [by @ dots[0], by_dot]

        def transpose(values: Sequence[Any], bars: Sequence[Any]) -> list[Any]:
            value_bar, by_bar = bars
            assert len(by_bar) == 1
            by, by_dot = both(values, by_bar[0])
            return [value_bar[0] * by[0] + by_dot[0]]

        linear = LinearMap(
            transpose,
            evaluate,
            len(operands),
            tuple(measuring.derivative((), self.all_params, order) for order in (0, 1)),
        )
        dots, jacobian_dot = linear(list(operands.values()), [self.params_dot])
        return [*measuring.results(dots), jacobian_dot]

    def derivative(
        self, handle: Handle, measuring: Measuring, order: int, *, keep: bool = False, **others: Any
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
        again = measuring.run_again()
        return operands.bind(derivative_p, measuring=again, order=order, keep=keep)

    def along_perturbations(
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
        known = operands.given()
        names = tuple(known)
        static = {"measuring": self.measuring.run_again(), "order": order, "keep": False}

        def evaluate(values: Sequence[Any], moving: Sequence[Any]) -> list[Any]:
            same = MeasureOperands.named(names, values)
            return same._replace(directions=moving[0]).bind(derivative_p, **static)[1:2]

        def transpose(values: Sequence[Any], bars: Sequence[Any]) -> list[Any]:
            same = MeasureOperands.named(names, values)
            return [perturbation_bar(same.handle, same.saved, bars[0]).reshape(-1, 1)]

        if saved is None:
            return evaluate(list(known.values()), [directions])[0]
        result = self.measuring.derivative(directions.shape[:1], self.all_params, order)
        linear = LinearMap(transpose, evaluate, len(known), (result,))
        return linear(list(known.values()), [directions])[0]

    def with_tangents_of(self, *names: str) -> "MeasurementJvp":
        """Return the same, if only these operands had tangents."""
        primals, tangents = self.primals._asdict(), self.tangents._asdict()
        zeros = {
            name: symbolic_zero(primal)
            for name, primal in primals.items()
            if name not in names and primal is not None
        }
        return self._replace(tangents=MeasureOperands(**{**tangents, **zeros}))

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


def _asked(
    names: Sequence[str], measuring: Measuring, values: Sequence[Any], query: Query, **others: Any
) -> list[Any]:
    """Return handle and results of a measurement of operands with these names.

    Rules of linear maps close over no operands: JAX keeps the rules longer than these.
    """
    same = MeasureOperands.named(names, values)._replace(**others)
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
