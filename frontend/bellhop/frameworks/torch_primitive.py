"""Calls of tensor functions in traced programs, and their derivatives of any order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from bellhop._jax.private import hold_weakly_in_caches
from bellhop.base.declared_types import array_type
from bellhop.base.source import user_site
from bellhop.callbacks.primitive import pure_callback_p
from bellhop.compiler.batching import call_one_by_one
from bellhop.compiler.target import CallbackTarget
from bellhop.frameworks.torch_functions import TensorFunction
from bellhop.mesh.manual_axes import vary_with, varying_as


@dataclass(frozen=True)
class Call:
    """A tensor function as a program calls it.

    Attributes:
        function: what is called.
        result_avals: the results.
        vmap_method: how it meets a mapped axis.
        site: ``file:line`` of the user's call.
    """

    function: TensorFunction
    result_avals: tuple[ShapedArray, ...]
    vmap_method: str
    site: str

    def _derivative(self, function: TensorFunction, avals: Sequence[Any]) -> "Call":
        # A derivative sums over an axis of length 1, and must not over that of a batch.
        method = self.vmap_method if self.vmap_method.startswith("seq") else "broadcast_all"
        avals = tuple(ShapedArray(aval.shape, aval.dtype) for aval in avals)
        return Call(function, avals, method, self.site)

    @property
    def _inexact(self) -> tuple[bool, ...]:
        return tuple(map(_is_inexact, self.result_avals))

    def vjp(self, active: tuple[bool, ...], args: Sequence[Any]) -> "Call":
        """Return the call of arguments and cotangents that returns active cotangents."""
        avals = [jax.typeof(arg) for arg, yes in zip(args, active, strict=True) if yes]
        return self._derivative(self.function.vjp(active, self._inexact), avals)

    def jvp(self, active: tuple[bool, ...]) -> "Call":
        """Return the call of arguments and active tangents that returns tangents."""
        avals = [aval for aval in self.result_avals if _is_inexact(aval)]
        return self._derivative(self.function.jvp(active, self._inexact), avals)


hold_weakly_in_caches(Call)


def _is_inexact(aval: Any) -> bool:
    return jnp.issubdtype(aval.dtype, jnp.inexact)


def _run(call: Call, operands: Sequence[Any]) -> list[Any]:
    """Call without a derivative of its own."""
    count = len(call.result_avals)
    target = CallbackTarget(
        flavour="call_torch",
        function=call.function,
        in_tree=jax.tree.structure(((0,) * len(operands), {})),
        out_tree=jax.tree.structure(0 if count == 1 else (0,) * count),
        result_avals=call.result_avals,
        site=call.site,
        vmap_method=call.vmap_method,
    )
    return pure_callback_p.bind(*operands, target=target)


def run(call: Call, *operands: Any) -> list[Any]:
    """Call a tensor function; differentiable to any order, forward and in reverse."""

    @jax.custom_jvp
    def primal(*args: Any) -> list[Any]:
        return _run(call, args)

    def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        active = tuple(map(_is_differentiated, tangents))
        nonzero = [tangent for tangent, yes in zip(tangents, active, strict=True) if yes]
        moved = iter(_push(call, active, primals, nonzero)) if nonzero else None
        out = [
            next(moved) if moved is not None and _is_inexact(aval) else _zero_tangent(aval)
            for aval in call.result_avals
        ]
        return run(call, *primals), out

    primal.defjvp(rule, symbolic_zeros=True)
    return primal(*vary_with(operands, operands))


def _is_differentiated(tangent: Any) -> bool:
    if isinstance(tangent, jax.custom_derivatives.SymbolicZero | ad.Zero):
        return False
    return jax.typeof(tangent).dtype != jax.dtypes.float0


def _zero_tangent(aval: ShapedArray) -> Any:
    if _is_inexact(aval):
        return jnp.zeros(aval.shape, aval.dtype)
    return np.zeros(aval.shape, jax.dtypes.float0)


# The tangents of the results: linear in the tangents, which follow the arguments.
push_p = Primitive("bellhop_torch_tangents")
push_p.multiple_results = True


def _push(
    call: Call, active: tuple[bool, ...], args: Sequence[Any], tangents: Sequence[Any]
) -> list[Any]:
    if not any(call._inexact):
        return []
    return push_p.bind(*args, *tangents, call=call, active=active)


@push_p.def_impl
def _push_now(*operands: Any, call: Call, active: tuple[bool, ...]) -> list[Any]:
    return _run(call.jvp(active), operands)


@push_p.def_abstract_eval
def _push_abstract(*avals: Any, call: Call, active: tuple[bool, ...]) -> Sequence[ShapedArray]:
    return varying_as(avals, call.jvp(active).result_avals)


def _push_transpose(
    cotangents: Sequence[Any], *operands: Any, call: Call, active: tuple[bool, ...]
) -> list[Any]:
    args, tangents = operands[: len(active)], operands[len(active) :]
    unknown = list(map(ad.is_undefined_primal, tangents))
    places = [i for i, yes in enumerate(active) if yes]
    wanted = {place for place, yes in zip(places, unknown, strict=True) if yes}
    asked = tuple(i in wanted for i in range(len(active)))
    found = iter(run(call.vjp(asked, args), *args, *map(ad.instantiate_zeros, cotangents)))
    return [None] * len(args) + [next(found) if yes else None for yes in unknown]


def _push_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, call: Call, active: tuple[bool, ...]
) -> tuple[list[Any], list[Any]]:
    results = push_p.bind(*primals, call=call, active=active)
    differentiated = tuple(map(_is_differentiated, tangents))
    nonzero = [tangent for tangent, yes in zip(tangents, differentiated, strict=True) if yes]
    args = len(active)
    if any(differentiated[:args]):
        moved = _push(call.jvp(active), differentiated, primals, nonzero)
    else:
        # Linear in the tangents: only those that move.
        places = [i for i, yes in enumerate(active) if yes]
        moving = {place for place, yes in zip(places, differentiated[args:], strict=True) if yes}
        still_active = tuple(i in moving for i in range(args))
        moved = _push(call, still_active, primals[:args], nonzero)
    return results, moved


def _push_batch(
    operands: Sequence[Any], dims: Sequence[Any], *, call: Call, active: tuple[bool, ...]
) -> tuple[list[Any], list[int]]:
    if call.vmap_method.startswith("seq"):
        return call_one_by_one(push_p, operands, dims, call=call, active=active)
    size = next(
        jnp.shape(operand)[dim]
        for operand, dim in zip(operands, dims, strict=True)
        if dim is not None
    )
    placed = [
        jnp.broadcast_to(operand, (size, *jnp.shape(operand)))
        if dim is None
        else jnp.moveaxis(operand, dim, 0)
        for operand, dim in zip(operands, dims, strict=True)
    ]
    where = f"call_torch (called from {call.site}), mapped by vmap,"
    avals = tuple(array_type(where, (size, *aval.shape), aval.dtype) for aval in call.result_avals)
    batched = Call(call.function, avals, call.vmap_method, call.site)
    results = push_p.bind(*placed, call=batched, active=active)
    return results, [0] * len(results)


ad.primitive_transposes[push_p] = _push_transpose
ad.primitive_jvps[push_p] = _push_jvp
batching.primitive_batchers[push_p] = _push_batch
mlir.register_lowering(push_p, mlir.lower_fun(_push_now, multiple_results=True))


def call_of(function: TensorFunction, avals: Sequence[ShapedArray], vmap_method: str) -> Call:
    """Return the call of a function that stands where the user's code does now."""
    return Call(function, tuple(avals), vmap_method, user_site())
