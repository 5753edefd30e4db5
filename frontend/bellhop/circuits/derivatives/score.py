"""The likelihood ratio: derivatives of what is made of outcomes that are drawn.

A circuit that draws outcomes in the middle runs once for each shot, and what a shot gives is a
function ``f`` of what was drawn in it.  Its mean has the derivative of the mean of ``f * p / p0``,
where ``p`` is the probability of what was drawn and ``p0`` its value: the mean of ``f`` times the
*score*, the derivative of ``log p``.  The engine has that by the adjoint method, from the amplitude
of the sample back through the outcomes::

    state score = quantum_score state params amplitudes

is zero, and has the JVP ::

    state gradient = quantum_score_gradient state params
    score_dot = dot_general gradient params_dot
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, mlir

from bellhop._jax.private import ir_type
from bellhop.circuits.derivatives.tangents import is_given, zero_tangent
from bellhop.circuits.derivatives.undifferentiable import undifferentiable
from bellhop.circuits.measure.statistics import Statistic
from bellhop.circuits.operations.state_primitives import HANDLE
from bellhop.circuits.precision import real_type
from bellhop.compiler.context import allow_our_dialects
from bellhop.errors import DifferentiableCompileError
from bellhop_mlir.dialects import quantum

# score: handle, params f64[p], amplitudes f64[a] -> handle, f64[], always 0.0
score_p = Primitive("quantum_score")
# score_gradient: handle, params f64[p] -> handle, f64[p]
score_gradient_p = Primitive("quantum_score_gradient")

_SAMPLES = (
    "it returns samples, or values that are computed of outcomes, and is differentiated by gates "
    "before them, by which only means over shots have a derivative. Return expval, var or probs."
)
_TWICE = (
    "it draws outcomes of measurements in the middle with shots, and is differentiated twice; the "
    "likelihood ratio of outcomes gives the first derivative alone. Use a circuit without shots."
)


def scored(statistics: Sequence[Statistic], score: Any) -> list[Statistic]:
    """Return the statistics of a run with the derivative of how likely what it has drawn was.

    Args:
        statistics: of a run of one shot.
        score: that of the run.
    """

    def changed(statistic: Statistic) -> Statistic:
        def change(value: Any) -> Any:
            if statistic.is_of_shots:
                return undifferentiable(value, _SAMPLES, by=score)
            return value * (1 + score)

        return replace(statistic, values=jax.tree.map(change, statistic.values))

    return list(map(changed, statistics))


def _score_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    handle, params, amplitudes = primals
    _, *dots = tangents
    if not any(map(is_given, dots)):
        handle, score = score_p.bind(*primals)
        return [handle, score], [zero_tangent(handle), zero_tangent(score)]
    params_dot = ad.instantiate_zeros(dots[0])
    if is_given(dots[1]):
        # They are the last of the parameters, as in ``point``.
        params = jnp.concatenate([params, amplitudes])
        params_dot = jnp.concatenate([params_dot, dots[1]])
    handle, gradient = score_gradient_p.bind(handle, params)
    handle, score = score_p.bind(handle, params, jnp.zeros(0, real_type()))
    return [handle, score], [zero_tangent(handle), gradient @ params_dot]


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
    return quantum.score([state], [ir_type(ctx, ctx.avals_out[1])])


score_p.def_abstract_eval(lambda *_: [HANDLE, ShapedArray((), real_type())])
score_gradient_p.def_abstract_eval(
    lambda _, params: [HANDLE, ShapedArray(params.shape, real_type())]
)
for _primitive, _rule, _lower in (
    (score_p, _score_jvp, _score_lower),
    (score_gradient_p, _gradient_jvp, _gradient_lower),
):
    _primitive.multiple_results = True
    ad.primitive_jvps[_primitive] = _rule
    mlir.register_lowering(_primitive, _lower, cacheable=False)
