"""The primitive that calls a circuit, and its derivative.

The function ``f`` of operands ``x`` that a program calls returns results; differentiated, it
returns their derivative by the operands as well, and so on for each order::

    y     = f[order=0] x              jvp:   y, J  = f[order=1] x       dy = J @ dx
    y, J  = f[order=1] x              jvp:   y, J, H = f[order=2] x     dy = J @ dx   dJ = H @ dx

What is left to the linear part is algebra, which JAX transposes.
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
    """A circuit on a device, as a program sees it."""

    function: CircuitFunction

    @property
    def description(self) -> str:
        """What raised, in the note that the run adds to an exception."""
        return f"{self.function.where} on {self.function.device.name}"


class _DeviceCall(Pure):
    """Calls of circuits: a mapped axis is one batch of tapes."""

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, target: Any
    ) -> tuple[list[Any], Sequence[Any]]:
        """Return the results and their tangents, by a call that has derivatives too."""
        function: CircuitFunction = target.function
        by = [number for number, tangent in enumerate(tangents) if is_perturbed(tangent)]
        if not by:
            return super().jvp(primals, tangents, target=target)
        for number in by:
            if jnp.iscomplexobj(primals[number]):
                raise DifferentiableCompileError(
                    f"{function.where}: it is differentiated by complex parameters of its "
                    "operations, which devices do not do. Use gates with angles."
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
        moved = [
            _contract_direction(derivative[..., columns], direction) for derivative in derivatives
        ]
        # What this call returns has only the columns of what it was differentiated by before.
        mine = _find_columns(shapes, differentiated.perturbed_operands, function.perturbed_operands)
        lower = [
            _take_columns(derivative, mine, order)
            for order, derivative in enumerate(derivatives[: function.order], 1)
        ]
        tangents_of_lower = [
            _take_columns(each, mine, order) for order, each in enumerate(moved[1:], 1)
        ]
        ends = np.cumsum([math.prod(result.shape) for result in function.results])[:-1]
        tangents_of_values = [
            jnp.reshape(part, value.shape).astype(value.dtype)
            for part, value in zip(jnp.split(moved[0], ends, axis=-1), values, strict=True)
        ]
        return [*values, *lower], [*tangents_of_values, *tangents_of_lower]


DEVICE_CALL = _DeviceCall("QNode", primitive="device_call", target_type=DeviceTarget)


def call_circuit(function: CircuitFunction, operands: Sequence[Any]) -> list[Any]:
    """Call a circuit; return the arrays of its results."""
    avals = tuple(result.aval for result in function.results)
    results = avals, jax.tree.structure([0] * len(avals))
    return DEVICE_CALL.call(function, operands, {}, results, vmap_method="broadcast_all")


def _make_derivative_target(
    target: CallbackTarget, function: CircuitFunction, lead: tuple[int, ...]
) -> CallbackTarget:
    """Return a target like another, of a function that returns derivatives."""
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
    """Return where the numbers of chosen operands stand among those of all of ``every``."""
    sizes = [math.prod(shapes[number]) for number in every]
    is_chosen = np.repeat([number in chosen for number in every], sizes)
    return np.flatnonzero(is_chosen)


def _contract_direction(derivative: Any, direction: Any) -> Any:
    """Return a derivative in a direction: the sum over the last axis; leading axes are shared."""
    inner = derivative.ndim - direction.ndim
    aligned = jnp.reshape(direction, (*direction.shape[:-1], *[1] * inner, direction.shape[-1]))
    return jnp.sum(derivative * aligned, axis=-1)


def _take_columns(derivative: Any, columns: np.ndarray, order: int) -> Any:
    """Return a derivative by some of the columns that it has: in the last axes, one an order."""
    for axis in range(derivative.ndim - order, derivative.ndim):
        derivative = jnp.take(derivative, columns, axis=axis)
    return derivative
