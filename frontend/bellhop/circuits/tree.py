"""Circuits that go through the outcomes of their mid-circuit measurements: sums over runs.

Each run of the circuit projects its state on some outcomes, so that the square of its norm is
their probability, and its values have that probability as a factor.  The results are the sums
over all runs.  So are their derivatives, which each run has to give by itself: what residuals
it has, and how many runs there are, depends on the outcomes.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr

from bellhop.circuits.primitives import restart_p


def through_tree(once: ClosedJaxpr) -> ClosedJaxpr:
    """Return the circuit that makes all runs of one; its results are the sums of theirs."""

    def run(state: tuple[Any, list[Any], Any], *inputs: Any) -> tuple[Any, list[Any], Any]:
        handle, sums, _ = state
        handle, *values = eval_jaxpr(once.jaxpr, once.consts, handle, *inputs)
        handle, more = restart_p.bind(handle)
        return handle, [sum_ + value for sum_, value in zip(sums, values, strict=True)], more

    def runs(handle: Any, *inputs: Any) -> list[Any]:
        zeros = [jnp.zeros(aval.shape, aval.dtype) for aval in once.out_avals[1:]]
        handle, sums, _ = jax.lax.while_loop(
            lambda state: state[2],
            lambda state: run(state, *inputs),
            (handle, zeros, jnp.array(True)),
        )
        return [handle, *sums]

    return jax.make_jaxpr(runs)(*_structs(once.in_avals))


def run_with_derivative(
    known: ClosedJaxpr, linear: ClosedJaxpr, n_out: int, tangents: Sequence[Any]
) -> ClosedJaxpr:
    """Return a run that gives its derivative as well, from one that was linearized.

    Args:
        known: from handle and inputs to handle, values and residuals.
        linear: from residuals and tangents to the values' tangents, which are real.
        n_out: how many of the results of ``known`` are handle and values.
        tangents: of the inputs that have one.

    Returns:
        from handle and inputs to handle, values, and for each value that has a tangent and each
        real part of ``tangents`` the derivative, ``[*value.shape, *tangent.shape]``.
    """
    likes = _structs([jax.typeof(tangent) for tangent in tangents])

    def run(handle: Any, *inputs: Any) -> list[Any]:
        results = eval_jaxpr(known.jaxpr, known.consts, handle, *inputs)
        n_residuals = len(linear.in_avals) - len(tangents)
        residuals = results[len(results) - n_residuals :]

        def of_parts(parts: Sequence[Any]) -> list[Any]:
            wholes = _joined(parts, likes)
            return list(eval_jaxpr(linear.jaxpr, linear.consts, *residuals, *wholes))

        zeros = [jnp.zeros(x.shape) for x in likes for _ in range(2 if _is_complex(x) else 1)]
        sizes = [sum(x.size for x in side) for side in (zeros, results[1:n_out])]
        differentiate = jax.jacfwd if sizes[0] <= sizes[1] else jax.jacrev
        return [*results[:n_out], *jax.tree.leaves(differentiate(of_parts)(zeros))]

    return jax.make_jaxpr(run)(*_structs(known.in_avals))


def apply_derivative(
    derivatives: Sequence[Any], tangents: Sequence[Any], n_values: int
) -> list[Any]:
    """Return the tangents of values, by the derivatives of ``run_with_derivative``."""
    parts = [part for tangent in tangents for part in _parts(tangent)]
    by_value = [derivatives[i * len(parts) : (i + 1) * len(parts)] for i in range(n_values)]
    return [
        sum(jnp.tensordot(d, part, jnp.ndim(part)) for d, part in zip(row, parts, strict=True))
        for row in by_value
    ]


def _parts(tangent: Any) -> list[Any]:
    """Return the real arrays that an array is made of."""
    return [jnp.real(tangent), jnp.imag(tangent)] if _is_complex(tangent) else [tangent]


def _joined(parts: Sequence[Any], like: Sequence[Any]) -> list[Any]:
    rest = iter(parts)
    wholes = [next(rest) + 1j * next(rest) if _is_complex(x) else next(rest) for x in like]
    return [whole.astype(x.dtype) for whole, x in zip(wholes, like, strict=True)]


def _is_complex(value: Any) -> bool:
    return jnp.issubdtype(value.dtype, jnp.complexfloating)


def _structs(avals: Sequence[Any]) -> list[Any]:
    return [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
