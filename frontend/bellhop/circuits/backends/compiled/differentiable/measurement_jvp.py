"""Hold a measurement's operands and their tangents, and bind its derivatives."""

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.interpreters import ad

from bellhop.base.types import Handle
from bellhop.callbacks.linear_map import LinearMap
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
from bellhop.circuits.ir.diff_method import DiffMethod
from bellhop.circuits.ir.precision import Precision
from bellhop.errors import DifferentiableCompileError
from bellhop.jaxprs.symbolic_zero import make_symbolic_zero

_SECOND_DERIVATIVE_WITH_SHOTS_ERROR = (
    "the circuit has shots and is differentiated twice; second derivatives with shots are "
    "supported only on lightning.qubit, with respect to gate parameters and without mid-circuit "
    "measurements. Use a circuit without shots."
)


class MeasurementJvp(NamedTuple):
    """The operands of a measurement to differentiate, with their tangents.

    The JVP rules of `measure_p` and `derivative_p` make an instance for each equation, and compute
    tangents by its methods.

    Attributes:
        primals: the operands of the measurement.
        tangents: the tangents of the operands, some of them symbolic zeros.
        measuring: the measurements and how they are differentiated.
        n_params: the number of parameters before amplitudes were appended to them.
    """

    primals: MeasureOperands
    tangents: MeasureOperands
    measuring: MeasurementSet
    n_params: int

    @classmethod
    def from_operands(
        cls,
        names: Sequence[str],
        primals: Sequence[Any],
        tangents: Sequence[Any],
        measuring: MeasurementSet,
    ) -> "MeasurementJvp":
        """Return the instance for an equation that measures.

        Amplitudes with a tangent are appended to ``params``, so that the circuit is differentiated
        by them, and the differentiation becomes its ``amplitude_differentiation``.

        Args:
            names: the names of the operands, fields of `MeasureOperands`.
            primals: the operands of the equation.
            tangents: their tangents, some of them symbolic zeros.
            measuring: the measurements, and how they are differentiated.
        """
        named, named_tangents = (
            MeasureOperands.from_names(names, values) for values in (primals, tangents)
        )
        n_params = named.params.shape[-1]
        if _is_given(named_tangents.amplitudes):
            assert measuring.differentiation.amplitude_differentiation is not None
            measuring = replace(
                measuring, differentiation=measuring.differentiation.amplitude_differentiation
            )
            named_tangents = named_tangents._replace(
                params=ad.instantiate_zeros(named_tangents.params)
            )
            named, named_tangents = map(_with_amplitudes_last, (named, named_tangents))
        return cls(named, named_tangents, measuring, n_params)

    @classmethod
    def from_derivative_operands(
        cls,
        names: Sequence[str],
        primals: Sequence[Any],
        tangents: Sequence[Any],
        measuring: MeasurementSet,
    ) -> "MeasurementJvp":
        """Return the instance for a ``quantum_derivative`` or a measurement with Jacobian.

        Args:
            names: the names of the operands, fields of `MeasureOperands`.
            primals: the operands of the equation.
            tangents: their tangents, some of them symbolic zeros.
            measuring: the measurements, and how they are differentiated.

        Raises:
            DifferentiableCompileError: if an operand has a tangent and the method of the first
                derivative has no second derivative, or the differentiation has an obstacle; or if
                the derivative by amplitudes needs another method than the first derivative.
        """
        jvp = cls.from_operands(names, primals, tangents, measuring)
        differentiation = jvp.measuring.differentiation
        if jvp.has_tangents and differentiation.method == DiffMethod.LIKELIHOOD_RATIO:
            raise DifferentiableCompileError(
                SECOND_DERIVATIVE_ERROR
                if measuring.is_score
                else _SECOND_DERIVATIVE_WITH_SHOTS_ERROR
            )
        if differentiation.method != measuring.differentiation.method:
            raise DifferentiableCompileError(
                "the circuit is differentiated with respect to gate parameters and then with "
                "respect to the amplitudes of StatePrep, which bellhop's engine supports, but not "
                "the device's plugin. Use diff_method='parameter-shift'."
            )
        if jvp.has_tangents and differentiation.obstacle:
            raise DifferentiableCompileError(differentiation.obstacle)
        return jvp

    @property
    def n_all_params(self) -> int:
        """The number of parameters, including amplitudes that were appended."""
        return self.primals.params.shape[-1]

    @property
    def has_amplitude_params(self) -> bool:
        """Whether amplitudes were appended to the gate parameters."""
        return self.n_all_params > self.n_params

    def drop_amplitudes(self, derivative: Any, order: int) -> Any:
        """Remove the entries of a derivative that belong to the appended amplitudes.

        Args:
            derivative: array whose last `order` axes are axes of parameters.
            order: the number of these axes.

        Returns:
            the array with `n_params` entries along these axes.
        """
        return (
            derivative[(..., *[slice(self.n_params)] * order)]
            if self.has_amplitude_params
            else derivative
        )

    @property
    def tangents_by_name(self) -> dict[str, Any]:
        """The nonzero tangents of the operands, by operand name, without the handle."""
        _, *tangents = self.tangents._asdict().items()
        return {name: dot for name, dot in tangents if dot is not None and _is_given(dot)}

    @property
    def has_tangents(self) -> bool:
        """Whether any operand has a nonzero tangent."""
        return bool(self.tangents_by_name)

    @property
    def has_gate_tangents(self) -> bool:
        """Whether parameters of gates have a nonzero tangent."""
        return self.params_tangent is not None or self.perturbation_tangent is not None

    @property
    def is_single_pass(self) -> bool:
        """Whether one adjoint sweep computes the product of the derivative with the tangents.

        True if the measurements are marked for it (``single_pass``), and only ``params``, to which
        amplitudes may be appended, has a tangent.
        """
        by_sweep = self.measuring.differentiation.single_pass
        return by_sweep and set(self.tangents_by_name) == {"params"}

    @property
    def params_tangent(self) -> Any:
        """The tangent of ``params``; None if it is zero."""
        return self.tangents_by_name.get("params")

    @property
    def perturbation_tangent(self) -> Any:
        """The tangent of the perturbation; None if it is zero.

        It is a number that identifies the tangents of gate parameters in loops with a dynamic trip
        count.
        """
        return self.tangents_by_name.get("perturbation")

    def bind_measurement(self, measuring: MeasurementSet, query: Query) -> list[Any]:
        """Bind ``quantum_measure`` with these operands, and return state handle and results.

        Args:
            measuring: the measurements; they are differentiated as ``self.measuring`` is.
            query: the results to return.
        """
        own = replace(measuring, differentiation=self.measuring.differentiation)
        return self.primals.bind(measure_p, measuring=own, query=query)

    def compute_single_pass_tangents(self, measuring: MeasurementSet) -> list[Any]:
        """Return the tangents of the measured values along the tangent of ``params``.

        Call it if `is_single_pass`. The tangents come from a ``LinearMap``: forward mode multiplies
        with the Jacobian, and reverse mode transposes it to a VJP, by one adjoint sweep of the
        engine without the Jacobian.

        Args:
            measuring: the measurements to differentiate, without the means of variances that
                ``add_variance_means`` appends.

        Returns:
            for each measurement the tangent, an array of the shape and dtype of its result.
        """
        operands = self.primals.to_dict()
        measure = functools.partial(_bind_measurement, tuple(operands), measuring)
        linear = LinearMap(
            lambda values, bars: measure(values, Query.VJP, cotangents=bars[0])[1:],
            lambda values, dots: [measure(values, Query.JACOBIAN)[-1] @ dots[0]],
            len(operands),
            (measuring.make_derivative_aval((), self.n_all_params, 0),),
        )
        return measuring.unflatten_results(
            linear(list(operands.values()), [self.params_tangent])[0]
        )

    def compute_second_tangents(self, measuring: MeasurementSet) -> list[Any]:
        """Return the tangents of expectation values and of their Jacobian by ``params``.

        Call it if `is_single_pass`, and without `has_amplitude_params`: Hessian-vector products are
        not along amplitudes. All tangents are one ``LinearMap``, evaluated by Hessian-vector
        products. Its transpose is a Hessian-vector product too, along the cotangent of the
        gradient, and supports a single value only.

        Args:
            measuring: the measurements, all of them expectation values.

        Returns:
            a tangent for each measurement, and the tangent f64[values, p] of the Jacobian.
        """
        operands = self.primals.to_dict()
        names = tuple(operands)

        def evaluate_both(values: Sequence[Any], direction: Any) -> Any:
            """Return the gradients of all expectation values and their tangents.

            Args:
                values: the operands of the measurement, in the order of ``names``.
                direction: the tangent of the ``p`` gate parameters, ``f64[p]``.

            Returns:
                two arrays ``f64[expectation values, p]``.
            """
            rows = _bind_measurement(
                names, measuring, values, Query.JACOBIAN_JVP, params_tangent=direction
            )[1]
            return rows[::2], rows[1::2]

        def evaluate(values: Sequence[Any], dots: Sequence[Any]) -> list[Any]:
            """Return the tangents of the values and of the Jacobian; a rule of the `LinearMap`."""
            gradients, gradient_tangents = evaluate_both(values, dots[0])
            return [gradients @ dots[0], gradient_tangents]

        def transpose(values: Sequence[Any], bars: Sequence[Any]) -> list[Any]:
            """Return the cotangent of ``params``, f64[p]; a rule of the `LinearMap`.

            Args:
                values: the operands of the measurement, in the order of ``names``.
                bars: the cotangent f64[1] of the expectation value, and the cotangent f64[1, p] of
                    its gradient by ``params``.

            Returns:
                a list with the cotangent.
            """
            value_bar, by_bar = bars
            assert len(by_bar) == 1
            gradients, gradient_tangents = evaluate_both(values, by_bar[0])
            return [value_bar[0] * gradients[0] + gradient_tangents[0]]

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
        """Bind ``quantum_derivative`` with these operands, which runs the gates again.

        Args:
            handle: the handle of the state.
            measuring: the measurements to differentiate.
            order: the order of the derivative by ``params``; 0 for the values.
            keep: whether the runtime keeps the first derivative by gate parameters in loops with a
                dynamic trip count.
            others: replacements of further operands, by name; ``saved`` is None if it is not among
                them.

        Returns:
            the handle of the state afterwards, the derivative by ``params``, and the number by
            which the runtime finds the derivative that it keeps: ``saved`` if it is among `others`,
            -1 if nothing is kept.
        """
        operands = self.primals._replace(**{"handle": handle, "saved": None, **others})
        rerun = measuring.prepare_rerun()
        return operands.bind(derivative_p, measuring=rerun, order=order, keep=keep)

    def differentiate_along_directions(
        self, handle: Handle, directions: Any, order: int, *, steps: Any, saved: Any = None
    ) -> Any:
        """Return the derivative by ``params`` and, additionally, along directions.

        A direction is a vector with a tangent for each gate parameter in loops with a dynamic trip
        count. The runtime holds these vectors; the program has a number for each.

        Args:
            handle: the handle of the state.
            directions: f64[rows, k], numbers of vectors. Each row gives one derivative of order k,
                along its k vectors.
            order: the order of the derivative by ``params``.
            steps: the number of gates and projections before the measurement, i32[].
            saved: the number by which the runtime finds the first derivative by these gate
                parameters, if it has kept it, for k = 1 and order 0; None to compute the derivative
                by running the gates again. With a number, the result is the result of a
                ``LinearMap``, which can be transposed.

        Returns:
            array f64[rows, values, p, ..., p] with `order` axes of length p, the number of entries
            of ``params``; ``values`` is the number of real values of all measurements.
        """
        operands = self.primals._replace(handle=handle, steps=steps, saved=saved, directions=None)
        known = operands.to_dict()
        names = tuple(known)
        static = {"measuring": self.measuring.prepare_rerun(), "order": order, "keep": False}

        def evaluate(values: Sequence[Any], moving: Sequence[Any]) -> list[Any]:
            """Return a list of the derivative along the directions ``moving[0]``."""
            same = MeasureOperands.from_names(names, values)
            return same._replace(directions=moving[0]).bind(derivative_p, **static)[1:2]

        def transpose(values: Sequence[Any], bars: Sequence[Any]) -> list[Any]:
            """Return the cotangent f64[rows, 1] of the directions; a rule of the `LinearMap`."""
            same = MeasureOperands.from_names(names, values)
            return [compute_perturbation_cotangent(same.handle, same.saved, bars[0]).reshape(-1, 1)]

        if saved is None:
            return evaluate(list(known.values()), [directions])[0]
        result = self.measuring.make_derivative_aval(directions.shape[:1], self.n_all_params, order)
        linear = LinearMap(transpose, evaluate, len(known), (result,))
        return linear(list(known.values()), [directions])[0]

    def keep_tangents(self, *names: str) -> "MeasurementJvp":
        """Return a copy in which only the named operands have nonzero tangents."""
        primals, tangents = self.primals._asdict(), self.tangents._asdict()
        zeros = {
            name: make_symbolic_zero(primal)
            for name, primal in primals.items()
            if name not in names and primal is not None
        }
        return self._replace(tangents=MeasureOperands(**{**tangents, **zeros}))

    def find_data_changes(self) -> tuple[list[ValueChange], "MeasurementJvp"]:
        """Write the values' tangents by coefficients and matrices as sums of other values.

        For instance, the tangent of ``<a X + b Z>`` is ``a_dot <X> + b_dot <Z>``.

        Returns:
            a list of such sums, empty if coefficients and matrices have no tangents; and a copy of
            this object that measures the values in the sums, followed by the expectation value of
            the observable of each variance among them.
        """
        dots = self.tangents_by_name.get("coefficients"), self.tangents_by_name.get("matrices")
        before = self.primals.coefficients
        changes = list(iterate_data_changes(self.measuring.measurements, before, *dots))
        terms = self.measuring.replace_measurements(
            [m for change in changes for m in change.measurements]
        )
        more = [jnp.asarray(change.coefficients, Precision.real_type()) for change in changes]
        primals = self.primals._replace(coefficients=jnp.concatenate([before, *more]))
        return changes, self._replace(primals=primals, measuring=terms.add_variance_means())


def _bind_measurement(
    names: Sequence[str],
    measuring: MeasurementSet,
    values: Sequence[Any],
    query: Query,
    **others: Any,
) -> list[Any]:
    """Bind ``quantum_measure`` with named operands, and return state handle and results.

    A function and not a method: JAX keeps the rules of linear maps longer than their operands, so
    the rules must not close over the operands.

    Args:
        names: the names of ``values``, fields of `MeasureOperands`.
        measuring: the measurements.
        values: the operands, in the order of ``names``.
        query: which results to return in addition to the handle.
    """
    operands = MeasureOperands.from_names(names, values)._replace(**others)
    return operands.bind(measure_p, measuring=measuring, query=query)


def _is_given(tangent: Any) -> bool:
    """Return whether a tangent is an array with elements, and not a symbolic zero."""
    return type(tangent) is not ad.Zero and tangent.size > 0


def _with_amplitudes_last(operands: Any) -> Any:
    """Append the amplitudes, or their tangents, to ``params``; empty ``amplitudes``.

    Args:
        operands: a ``MeasureOperands`` of operands or of their tangents.
    """
    params = jnp.concatenate([operands.params, operands.amplitudes])
    return operands._replace(params=params, amplitudes=jnp.zeros(0, Precision.real_type()))
