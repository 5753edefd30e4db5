"""The likelihood ratio: derivatives of what is made of outcomes that are drawn.

A circuit that draws outcomes in the middle runs once for each shot, and what a shot gives is a
function ``f`` of what was drawn in it.  Its mean has the derivative of the mean of ``f * p / p0``,
where ``p`` is the probability of what was drawn and ``p0`` its value: the mean of ``f`` times the
*score*, the derivative of ``log p``.  The engine has that by the adjoint method, from the amplitude
of the sample back through the outcomes::

    state score = quantum_score state params amplitudes perturbation

is zero, and has the JVP ::

    state gradient saved = quantum_score_gradient state params [] perturbation
    state score = quantum_score state params [] perturbation
    score_dot = dot_general gradient params_dot
    more_dot = quantum_score_along state saved [perturbation_dot]
    score_dot = add score_dot more_dot

Of a circuit that postselects only some runs count.  These are distributed as ``p / P``, where ``P``
is the sum of ``p`` over them, so the derivative of ``log P`` is the mean of their scores, and that
of the mean of ``f`` the covariance of ``f`` and the score.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, mlir

from bellhop._jax.private import ir_type
from bellhop.circuits.derivatives.dynamic_count import vjp_p
from bellhop.circuits.derivatives.tangents import (
    batch_as_rows,
    is_given,
    with_amplitudes_last,
    zero_tangent,
)
from bellhop.circuits.derivatives.undifferentiable import undifferentiable
from bellhop.circuits.measure.statistics import Statistic
from bellhop.circuits.operations.state_primitives import HANDLE
from bellhop.circuits.precision import real_type
from bellhop.compiler.context import allow_our_dialects
from bellhop.errors import DifferentiableCompileError
from bellhop_mlir.dialects import quantum


class ScoreOperands(NamedTuple):
    """The operands of ``score``, named as those of ``measure``."""

    handle: Any
    params: Any
    amplitudes: Any
    perturbation: Any = None

    def flat(self) -> list[Any]:
        """Return them as arguments of ``bind``."""
        return [operand for operand in self if operand is not None]


# score: ``ScoreOperands`` -> handle, f64[], always 0.0
score_p = Primitive("quantum_score")
# score_gradient: the same -> handle, f64[p], and the number i32[] of the derivative by
#   dynamic-count parameters, which the session keeps
score_gradient_p = Primitive("quantum_score_gradient")
# score_along: handle, that number, tangents of the perturbation f64[rows] -> f64[rows, 1]
_score_along_p = Primitive("quantum_score_along")

_SAMPLES = (
    "it returns samples, or values that are computed of outcomes, and is differentiated by gates "
    "before them, by which only means over shots have a derivative. Return expval, var or probs."
)
_ONE_SHOT = (
    "it postselects, is differentiated, and has a group of one shot; the derivative of a mean is a "
    "covariance, which two shots and more have. Give it more shots."
)
_TWICE = (
    "it draws outcomes of measurements in the middle with shots, and is differentiated twice; the "
    "likelihood ratio of outcomes gives the first derivative alone. Use a circuit without shots."
)


def scored(
    statistics: Sequence[Statistic], score: Any, fewest: int | None = None
) -> list[Statistic]:
    """Return the statistics of a run; those without a mean have no derivative by what was drawn.

    Args:
        statistics: of a run of one shot.
        score: that of the run.
        fewest: the shots of the smallest group, where runs that fail do not count.
    """

    def changed(statistic: Statistic) -> Statistic:
        obstacle = _SAMPLES if statistic.is_of_shots else _ONE_SHOT if fewest == 1 else None
        if obstacle is None:
            return statistic
        change = lambda value: undifferentiable(value, obstacle, by=score)
        return replace(statistic, values=jax.tree.map(change, statistic.values))

    return list(map(changed, statistics))


def derived_means(sums: Sequence[Any], counts: Any, *, is_conditioned: bool) -> list[Any]:
    """Return means over groups of shots, with the derivative of how likely the shots were.

    Args:
        sums: over the shots of each group, of several values; then of each of these times the
            shot's score; and of the scores.
        counts: how many shots of each group count.
        is_conditioned: whether others do not.
    """
    *sums, scores = sums
    half = len(sums) // 2

    def mean(total: Any, product: Any) -> Any:
        column = (-1, *[1] * (total.ndim - 1))
        count = jnp.reshape(counts, column)
        average = total / count
        if not is_conditioned:
            return average + _zero_over(product, count)
        centred = product - jax.lax.stop_gradient(average) * jnp.reshape(scores, column)
        # Of a single shot that was saved there is no covariance: NaN.
        return average + _zero_over(centred, count - 1)

    return list(map(mean, sums[:half], sums[half:]))


@jax.custom_jvp
def _zero_over(zero: Any, _: Any) -> Any:
    """Return zero, whose derivative is divided by something."""
    # Not the sum itself, which nobody needs then but for the derivative.
    return jnp.zeros_like(zero)


@_zero_over.defjvp
def _zero_over_jvp(primals: Any, tangents: Any) -> Any:
    return _zero_over(*primals), tangents[0] / primals[1]


def _score_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    _, *dots = tangents
    if not any(map(is_given, dots)):
        handle, score = score_p.bind(*primals)
        return [handle, score], [zero_tangent(handle), zero_tangent(score)]
    operands, moved = ScoreOperands(*primals), ScoreOperands(*tangents)
    moved = moved._replace(params=ad.instantiate_zeros(moved.params))
    if is_given(moved.amplitudes):
        operands, moved = map(with_amplitudes_last, (operands, moved))
    handle, gradient, saved = score_gradient_p.bind(*operands.flat())
    handle, score = score_p.bind(*operands._replace(handle=handle).flat())
    dot = gradient @ moved.params
    if moved.perturbation is not None and is_given(moved.perturbation):
        dot += _score_along_p.bind(handle, saved, moved.perturbation[None])[0, 0]
    return [handle, score], [zero_tangent(handle), dot]


def _gradient_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    if any(map(is_given, tangents)):
        raise DifferentiableCompileError(_TWICE)
    results = score_gradient_p.bind(*primals)
    return results, list(map(zero_tangent, results))


def _score_lower(ctx: Any, state: Any, *_: Any) -> Any:
    (_, zero) = ctx.avals_out
    return [state, mlir.ir_constant(np.zeros((), zero.dtype))]


def _gradient_lower(ctx: Any, state: Any, *_: Any) -> Any:
    allow_our_dialects(ctx)
    state, saved, gradient = quantum.score([state], [ir_type(ctx, ctx.avals_out[1])])
    return [state, gradient, saved]


def _along_transpose(along_bar: Any, handle: Any, saved: Any, _: Any) -> list[Any]:
    if type(along_bar) is ad.Zero:
        return [None, None, None]
    return [None, None, vjp_p.bind(handle, saved, along_bar)]


def _along_lower(ctx: Any, state: Any, saved: Any, directions: Any) -> Any:
    return quantum.jvp([state, directions, saved], [ir_type(ctx, ctx.avals_out[0])])


_score_along_p.def_abstract_eval(
    lambda _, __, directions: ShapedArray((*directions.shape, 1), real_type())
)
batch_as_rows(_score_along_p)
ad.primitive_transposes[_score_along_p] = _along_transpose
mlir.register_lowering(_score_along_p, _along_lower, cacheable=False)

score_p.def_abstract_eval(lambda *_: [HANDLE, ShapedArray((), real_type())])
score_gradient_p.def_abstract_eval(
    lambda _, params, *__: [
        HANDLE,
        ShapedArray(params.shape, real_type()),
        ShapedArray((), np.dtype(np.int32)),
    ]
)
for _primitive, _rule, _lower in (
    (score_p, _score_jvp, _score_lower),
    (score_gradient_p, _gradient_jvp, _gradient_lower),
):
    _primitive.multiple_results = True
    ad.primitive_jvps[_primitive] = _rule
    mlir.register_lowering(_primitive, _lower, cacheable=False)
