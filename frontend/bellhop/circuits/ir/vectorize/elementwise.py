"""Predicate for equations that can be vectorized.

::

    is_elementwise(b = sin a)             True
    is_elementwise(b = slice[...] a)      True, since it only picks elements
    is_elementwise(b = cumsum a)          False
"""

from jax import lax
from jax.extend.core import JaxprEqn
from jax.extend.core.primitives import jit_p

from bellhop.circuits.ir.vectorize.stack_scalars import pack_p

# Names of primitives, since some releases of JAX lack some primitives.
# fmt: off
_NAMES = (
    "abs", "acos", "acosh", "add", "and", "asin", "asinh", "atan", "atan2", "atanh",
    "broadcast_in_dim", "cbrt", "ceil", "clamp", "complex", "concatenate", "conj",
    "convert_element_type", "copy", "cos", "cosh", "digamma", "div", "dynamic_slice", "eq",
    "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "floor", "ge", "gt", "imag",
    "integer_pow", "is_finite", "le", "lgamma", "log", "log1p", "logistic", "lt", "max", "min",
    "mul", "ne", "neg", "not", "or", "pow", "real", "reduce_max", "reduce_min", "reduce_prod",
    "reduce_sum", "rem", "reshape", "round", "rsqrt", "select_n", "sign", "sin", "sinh", "sqrt",
    "square", "squeeze", "stack", "sub", "tan", "tanh", "transpose", "xor",
)
# fmt: on
# Splits an array along an axis, as Python's iteration over an array does; JAX has it since 0.11.
unstack_p = getattr(lax, "unstack_p", None)
_ELEMENTWISE = frozenset(getattr(lax, f"{name}_p") for name in _NAMES if hasattr(lax, f"{name}_p"))


def is_elementwise(eqn: JaxprEqn) -> bool:
    """Return whether ``jax.vmap`` can merge an equation with similar equations.

    True for elementwise primitives, for slices with strides of one, reshapes and other
    rearrangements, for reductions such as ``reduce_sum``, for ``pack`` and ``unstack``, and for
    ``jit`` of such equations with one result and without constants. False for an equation with
    effects.
    """
    if eqn.effects:
        return False
    if eqn.primitive is unstack_p:
        return True
    if len(eqn.outvars) != 1:
        return False
    if eqn.primitive is jit_p:
        inner = eqn.params["jaxpr"]
        return not inner.consts and all(map(is_elementwise, inner.jaxpr.eqns))
    if eqn.primitive is lax.slice_p:
        # Iteration over an array in Python sets explicit strides of one.
        return set(eqn.params["strides"] or ()) <= {1}
    return eqn.primitive in _ELEMENTWISE or eqn.primitive is pack_p
