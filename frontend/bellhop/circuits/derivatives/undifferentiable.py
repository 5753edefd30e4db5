"""Values whose derivative is an error, where JAX has a wrong one."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from bellhop.errors import DifferentiableCompileError

# undifferentiable: x -> x
_undifferentiable_p = Primitive("quantum_undifferentiable")
_undifferentiable_p.def_impl(lambda x, **_: x)
_undifferentiable_p.def_abstract_eval(lambda x, **_: x)
batching.defvectorized(_undifferentiable_p)
mlir.register_lowering(_undifferentiable_p, lambda _, x, **__: [x])


def undifferentiable(x: Any, obstacle: str) -> Any:
    """Return ``x``, whose derivative is an error that names the obstacle."""
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return x
    return _undifferentiable_p.bind(x, obstacle=obstacle)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, obstacle: str) -> Any:
    if type(tangents[0]) is not ad.Zero:
        raise DifferentiableCompileError(obstacle)
    return _undifferentiable_p.bind(*primals, obstacle=obstacle), tangents[0]


ad.primitive_jvps[_undifferentiable_p] = _jvp
