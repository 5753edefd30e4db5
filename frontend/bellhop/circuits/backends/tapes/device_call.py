"""The JAX primitive that calls a circuit on a Python device, with its JVP rule.

The program calls a function ``f`` of operands ``x``.  Each differentiation replaces the call by a
call that also returns the derivatives of the next order with respect to the operands::

    y     = f[order=0] x              jvp:   y, J  = f[order=1] x       dy = J @ dx
    y, J  = f[order=1] x              jvp:   y, J, H = f[order=2] x     dy = J @ dx   dJ = H @ dx

The tangents are products of derivatives and operand tangents, which JAX can transpose.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray

from bellhop.callbacks.callback_type import Pure
from bellhop.callbacks.linear_map import is_perturbed
from bellhop.circuits.backends.tapes.circuit_function import CircuitFunction
from bellhop.circuits.backends.tapes.diff_methods import choose_method
from bellhop.compiler.callback_target import CallbackTarget
from bellhop.errors import DifferentiableCompileError


class DeviceTarget(CallbackTarget):
    """The callback target of a circuit on a Python device.

    Attributes:
        function: the circuit, which executes tapes.
    """

    function: CircuitFunction

    @property
    def description(self) -> str:
        """The QNode and its device, for the note that is added to an exception."""
        return f"{self.function.where} on {self.function.device.name}"


class _DeviceCall(Pure):
    """The callback kind of circuits; a mapped axis becomes a batch of tapes."""

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, target: Any
    ) -> tuple[list[Any], Sequence[Any]]:
        """Call the circuit with its next derivatives; return results and tangents.

        Args:
            primals: the operands.
            tangents: the operands' tangents.
            target: the call's `DeviceTarget`.

        Raises:
            DifferentiableCompileError: for complex operands, or if no method supports the
                derivative.
        """
        function: CircuitFunction = target.function
        by = [number for number, tangent in enumerate(tangents) if is_perturbed(tangent)]
        if not by:
            return super().jvp(primals, tangents, target=target)
        for number in by:
            if jnp.iscomplexobj(primals[number]):
                raise DifferentiableCompileError(
                    f"{function.where}: differentiation with respect to complex parameters of "
                    "operations is not supported on Python devices. Use gates with angles."
                )
        method = choose_method(function, function.order + 1, {*function.perturbed_operands, *by})
        differentiated = function.differentiate(by, method)
        lead = function.get_leading_axes(primals)
        all_results = self.primitive.bind(
            *primals, target=_make_derivative_target(target, differentiated, lead)
        )
        n_values = len(function.results)
        values, derivatives = all_results[:n_values], all_results[n_values:]
        shapes = [operand.shape for operand in function.operands]
        columns = _find_columns(shapes, differentiated.perturbed_operands, by)
        direction = jnp.concatenate(
            [
                jnp.reshape(tangents[number], (*lead, math.prod(shapes[number]))).astype(
                    derivatives[0].dtype
                )
                for number in by
            ],
            axis=-1,
        )
        tangents_by_order = [
            _contract_direction(derivative[..., columns], direction) for derivative in derivatives
        ]
        # The call being differentiated returns derivatives with respect to fewer operands.
        mine = _find_columns(shapes, differentiated.perturbed_operands, function.perturbed_operands)
        lower = [
            _take_columns(derivative, mine, order)
            for order, derivative in enumerate(derivatives[: function.order], 1)
        ]
        tangents_of_lower = [
            _take_columns(each, mine, order) for order, each in enumerate(tangents_by_order[1:], 1)
        ]
        ends = np.cumsum([math.prod(result.shape) for result in function.results])[:-1]
        tangents_of_values = [
            jnp.reshape(part, value.shape).astype(value.dtype)
            for part, value in zip(
                jnp.split(tangents_by_order[0], ends, axis=-1), values, strict=True
            )
        ]
        return [*values, *lower], [*tangents_of_values, *tangents_of_lower]


DEVICE_CALL = _DeviceCall("QNode", primitive="device_call", target_type=DeviceTarget)


def call_circuit(function: CircuitFunction, operands: Sequence[Any]) -> list[Any]:
    """Bind the primitive that calls a circuit; return the arrays of its results.

    Args:
        function: the circuit.
        operands: arrays for its template, then the seed if the function is seeded.
    """
    avals = tuple(result.aval for result in function.results)
    results = avals, jax.tree.structure([0] * len(avals))
    return DEVICE_CALL.call(function, operands, {}, results, vmap_method="broadcast_all")


def _make_derivative_target(
    target: CallbackTarget, function: CircuitFunction, lead: tuple[int, ...]
) -> CallbackTarget:
    """Return a copy of a target for a function that returns derivatives.

    Args:
        target: the target of the function that is differentiated.
        function: the function with derivatives.
        lead: the shape of the leading batch axes.
    """
    values = target.result_avals[: len(function.results)]
    real = np.result_type(*(aval.dtype for aval in values))
    n = sum(math.prod(function.operands[number].shape) for number in function.perturbed_operands)
    m = sum(math.prod(result.shape) for result in function.results)
    derivatives = [
        ShapedArray((*lead, m, *[n] * order), real) for order in range(1, function.order + 1)
    ]
    avals = (*values, *derivatives)
    tree = jax.tree.structure([0] * len(avals))
    return replace(target, function=function, result_avals=avals, out_tree=tree)


def _find_columns(
    shapes: Sequence[tuple[int, ...]], every: Sequence[int], chosen: Sequence[int]
) -> np.ndarray:
    """Return the indices of the chosen operands' elements among all elements.

    Args:
        shapes: the shapes of all operands.
        every: indices of the operands whose flattened elements are concatenated.
        chosen: indices of the operands to find, a subset of ``every``.
    """
    sizes = [math.prod(shapes[number]) for number in every]
    is_chosen = np.repeat([number in chosen for number in every], sizes)
    return np.flatnonzero(is_chosen)


def _contract_direction(derivative: Any, direction: Any) -> Any:
    """Multiply a derivative by a direction and sum over the last axis.

    Args:
        derivative: ``[*lead, m, ..., n]``.
        direction: ``[*lead, n]``.
    """
    inner = derivative.ndim - direction.ndim
    aligned = jnp.reshape(direction, (*direction.shape[:-1], *[1] * inner, direction.shape[-1]))
    return jnp.sum(derivative * aligned, axis=-1)


def _take_columns(derivative: Any, columns: np.ndarray, order: int) -> Any:
    """Select columns of a derivative in each of its last ``order`` axes."""
    for axis in range(derivative.ndim - order, derivative.ndim):
        derivative = jnp.take(derivative, columns, axis=axis)
    return derivative
