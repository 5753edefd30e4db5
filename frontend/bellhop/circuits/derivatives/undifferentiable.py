"""Values whose derivative is an error, where JAX has a wrong one."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from bellhop.errors import DifferentiableCompileError

# undifferentiable: x, and what else must not be differentiated... -> x
_undifferentiable_p = Primitive("quantum_undifferentiable")
_undifferentiable_p.def_impl(lambda x, *_, **__: x)
_undifferentiable_p.def_abstract_eval(lambda x, *_, **__: x)
mlir.register_lowering(_undifferentiable_p, lambda _, x, *__, **___: [x])


def undifferentiable(x: Any, obstacle: str, by: Any = None) -> Any:
    """Return ``x``, whose derivative is an error that names the obstacle.

    Args:
        x: an array.
        obstacle: why it has none.
        by: another array, whose derivative is an error too.
    """
    if by is None and not jnp.issubdtype(x.dtype, jnp.inexact):
        return x
    return _undifferentiable_p.bind(x, *([] if by is None else [by]), obstacle=obstacle)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, obstacle: str) -> Any:
    if any(type(tangent) is not ad.Zero for tangent in tangents):
        raise DifferentiableCompileError(obstacle)
    return _undifferentiable_p.bind(*primals, obstacle=obstacle), tangents[0]


ad.primitive_jvps[_undifferentiable_p] = _jvp


def _batch(args: Sequence[Any], dims: Sequence[Any], *, obstacle: str) -> Any:
    return _undifferentiable_p.bind(*args, obstacle=obstacle), dims[0]


batching.primitive_batchers[_undifferentiable_p] = _batch
