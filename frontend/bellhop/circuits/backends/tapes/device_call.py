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
    """Describes the callback by which a program calls a circuit on its Python device.

    Attributes:
        function: the function that executes the circuit's tapes.
    """

    function: CircuitFunction

    @property
    def description(self) -> str:
        """The QNode and its device, for the note that is added to an exception in the callback."""
        return f"{self.function.where} on {self.function.device.name}"


class _DeviceCall(Pure):
    """Primitive that calls the device of a circuit, with its JVP rule.

    It is a pure callback. An axis of ``jax.vmap`` becomes a batch of tapes.
    """

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, target: Any
    ) -> tuple[list[Any], Sequence[Any]]:
        """JVP rule: replace the call by a call that also returns derivatives of the next order.

        The tangents are products of these derivatives and the operands' tangents.

        Args:
            primals: the operands of the call.
            tangents: the tangents of the operands; symbolic zeros for unperturbed operands.
            target: the call's `DeviceTarget`, whose function may already return derivatives.

        Returns:
            the results of the call, and their tangents.

        Raises:
            DifferentiableCompileError: if a complex operand is perturbed, or no method supports the
                derivative.
        """
        function: CircuitFunction = target.function
        by = [number for number, tangent in enumerate(tangents) if is_perturbed(tangent)]
        if not by:
            return super().jvp(primals, tangents, target=target)
        for number in by:
            if jnp.iscomplexobj(primals[number]):
                raise DifferentiableCompileError(
                    f"{function.where}: the circuit is differentiated with respect to complex "
                    f"parameters of operations, which is not supported on {function.device.name}. "
                    "Use gates with real angles."
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
    """Add a call of a circuit's device to the program; return its results.

    Args:
        function: the function that executes the circuit.
        operands: arrays for its template, then the seed if the function is seeded.

    Returns:
        an array for each of ``function.results``.
    """
    avals = tuple(result.aval for result in function.results)
    results = avals, jax.tree.structure([0] * len(avals))
    return DEVICE_CALL.call(function, operands, {}, results, vmap_method="broadcast_all")


def _make_derivative_target(
    target: CallbackTarget, function: CircuitFunction, lead: tuple[int, ...]
) -> CallbackTarget:
    """Copy a callback's description for a function that also returns derivatives.

    Args:
        target: the description of the call without the new derivatives.
        function: the new function, with derivatives.
        lead: the shape of the batch axes that ``jax.vmap`` added, which all results have.
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
    """Return the indices of chosen operands' elements among all flattened elements.

    For operands of 2, 3 and 1 elements, of which the last two are chosen: ``[2, 3, 4, 5]``.

    Args:
        shapes: the shapes of all operands of the call.
        every: indices into ``shapes`` of the operands whose flattened elements are concatenated.
        chosen: indices into ``shapes`` of the operands to find, a subset of ``every``.
    """
    sizes = [math.prod(shapes[number]) for number in every]
    is_chosen = np.repeat([number in chosen for number in every], sizes)
    return np.flatnonzero(is_chosen)


def _contract_direction(derivative: Any, direction: Any) -> Any:
    """Multiply a derivative by a vector along its last axis, and sum over this axis.

    Args:
        derivative: array ``[*lead, m, ..., n]``: batch axes, results, parameters.
        direction: array ``[*lead, n]``, the tangents of the parameters.
    """
    inner = derivative.ndim - direction.ndim
    aligned = jnp.reshape(direction, (*direction.shape[:-1], *[1] * inner, direction.shape[-1]))
    return jnp.sum(derivative * aligned, axis=-1)


def _take_columns(derivative: Any, columns: np.ndarray, order: int) -> Any:
    """Select the elements of some operands in the last ``order`` axes of a derivative.

    Args:
        derivative: array with ``order`` axes of parameters at the end.
        columns: integer array, the indices to keep in each of these axes.
    """
    for axis in range(derivative.ndim - order, derivative.ndim):
        derivative = jnp.take(derivative, columns, axis=axis)
    return derivative
