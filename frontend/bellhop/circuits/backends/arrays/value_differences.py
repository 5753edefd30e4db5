"""Differentiate circuits on arrays by finite differences or SPSA.

The circuit's parameters are the arguments of the QNode.  A function ``f`` of them becomes a
function whose tangents are linear combinations of ``f`` at shifted arguments.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.base.types import Operand
from bellhop.circuits.gates.shift_rules import ShiftRules
from bellhop.circuits.ir.diff_method import DiffMethod
from bellhop.circuits.ir.precision import Precision
from bellhop.circuits.ir.tangents import forbid_derivative, split_last_axis
from bellhop.errors import DifferentiableCompileError


def evaluate_with_differences(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    method: str,
    options: Mapping[str, Any],
    where: str,
) -> Any:
    """Evaluate a function; JAX differentiates it by finite differences or SPSA.

    This implements ``diff_method="finite-diff"`` and ``"spsa"`` for circuits simulated on arrays. A
    second derivative raises ``DifferentiableCompileError``, as does a derivative by a complex
    input.

    Args:
        function: ``function(*inputs) -> results``, a pytree of arrays.
        inputs: the arguments of the QNode, arrays. Only inputs that JAX differentiates are shifted.
        method: ``"finite-diff"`` or ``"spsa"``.
        options: PennyLane's gradient options ``h``, ``approx_order`` and ``strategy``; for SPSA
            also ``num_directions`` and ``sampler_rng``.
        where: the QNode and its line, for errors.

    Returns:
        the pytree ``function(*inputs)``.
    """
    closed, outer = jax.closure_convert(function, *inputs)
    differentiated = jax.custom_jvp(closed)

    def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        """JVP rule of the function that `evaluate_with_differences` calls.

        Args:
            primals: the inputs, and the values over which `function` closes.
            tangents: a tangent for each primal, or a `SymbolicZero`.

        Returns:
            the function's results and their tangents, sums of results at shifted inputs.

        Raises:
            DifferentiableCompileError: if a complex input is differentiated, or if a part of the
                function raises this error when JAX differentiates it.
        """
        perturbed = [
            number
            for number, tangent in enumerate(tangents)
            if not isinstance(tangent, jax.custom_derivatives.SymbolicZero)
        ]
        if any(map(jnp.iscomplexobj, (primals[number] for number in perturbed))):
            raise DifferentiableCompileError(
                f"{where}: the circuit is differentiated with respect to complex arguments, which "
                f"diff_method='{method}' does not support. Pass real and imaginary parts as "
                "separate arguments, or use diff_method='best'."
            )
        origin = _concatenate_flat([primals[number] for number in perturbed])
        direction = _concatenate_flat([tangents[number] for number in perturbed])
        shapes = [primals[number].shape for number in perturbed]

        def evaluate_shifted(params: Operand) -> Any:
            """Return the function's results at other values of the differentiated inputs.

            `params` are these values, flattened and concatenated in order to a 1-D array.
            """
            shifted = list(primals)
            for number, value in zip(perturbed, split_last_axis(params, shapes), strict=True):
                shifted[number] = value.astype(primals[number].dtype)
            return closed(*shifted)

        # Raises the error of a function that has no derivative.
        jax.eval_shape(lambda: jax.jvp(evaluate_shifted, (origin,), (direction,)))
        # SPSA shifts along random directions, finite differences along each parameter.
        rows, mean = jnp.eye(origin.size), 1.0
        if method == DiffMethod.SPSA:
            n_directions = options["num_directions"]
            rows = ShiftRules.draw_directions(origin.size, n_directions, options["sampler_rng"])
            mean = 1 / n_directions
        along = mean * (rows @ direction)
        terms = ShiftRules.compute_difference_terms(
            options["h"], options["approx_order"], options["strategy"]
        )
        coefficients, shifts = terms.T
        is_shifted = shifts != 0
        weights = jnp.ravel(coefficients[is_shifted, None] * along)
        weight_at_origin = np.sum(coefficients[~is_shifted]) * jnp.sum(along)
        points = (shifts[is_shifted, None, None] * rows).reshape(-1, origin.size)
        values = evaluate_shifted(origin)
        shifted = jax.lax.map(lambda point: evaluate_shifted(origin + point), points)

        def compute_tangent(value: Operand, values: Any) -> Any:
            """Return the tangent of one result; float0 zeros for an integer result.

            Args:
                value: the result at the unshifted inputs.
                values: ``[points, *value.shape]``, the result at each shifted point.
            """
            if not jnp.issubdtype(value.dtype, jnp.inexact):
                return jnp.zeros(value.shape, jax.dtypes.float0)
            once = lambda array: forbid_derivative(
                array, f"{where}: {DiffMethod.explain_second_difference(method)}"
            )
            total = jnp.tensordot(weights, once(values), 1) + weight_at_origin * once(value)
            return total.astype(value.dtype)

        return values, jax.tree.map(compute_tangent, values, shifted)

    differentiated.defjvp(jvp, symbolic_zeros=True)
    return differentiated(*inputs, *outer)


def _concatenate_flat(arrays: Sequence[Any]) -> Any:
    """Flatten arrays, cast them to the program's real dtype and concatenate them."""
    assert arrays
    return jnp.concatenate([jnp.ravel(array).astype(Precision.real_type()) for array in arrays])
