"""Calls of tensor functions in traced programs, differentiable to any order."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray

from bellhop._jax.private import hold_weakly_in_caches
from bellhop.base.source import user_site
from bellhop.base.types import Aval, Operand
from bellhop.callbacks.callback_type import Pure
from bellhop.callbacks.linear_map import LinearMap, is_perturbed, zero_tangent
from bellhop.frameworks.torch_functions import TensorFunction
from bellhop.mesh.manual_axes import vary_like


@dataclass(frozen=True)
class TorchCall:
    """Description of a PyTorch function's call in a traced program, without operands.

    It is hashable, so that equal calls can be merged; JAX's caches reference it weakly.

    Attributes:
        function: the function of flat tensors: the user's, or a derivative of it.
        result_avals: types of the results.
        vmap_method: behaviour under ``vmap``, as for ``pure_callback``.
        site: ``file:line`` of the user's call.
    """

    function: TensorFunction
    result_avals: tuple[ShapedArray, ...]
    vmap_method: str
    site: str

    def _derivative(self, function: TensorFunction, avals: Sequence[Any]) -> "TorchCall":
        """Describe a call of a derivative of this call's function.

        The new description has the same `site`. Its `vmap_method` is the same if the method is
        sequential, else ``"broadcast_all"``.

        Args:
            function: a derivative of this call's function.
            avals: types of the derivative's results, of which shapes and dtypes are used.
        """
        # A derivative sums over axes of length 1, which must not happen for a batch axis.
        method = self.vmap_method if self.vmap_method.startswith("seq") else "broadcast_all"
        avals = tuple(ShapedArray(aval.shape, aval.dtype) for aval in avals)
        return TorchCall(function, avals, method, self.site)

    @property
    def _inexact(self) -> tuple[bool, ...]:
        """For each result, whether it is floating-point or complex."""
        return tuple(map(_is_inexact, self.result_avals))

    def vjp(self, active: tuple[bool, ...], args: Sequence[Any]) -> "TorchCall":
        """Describe the call that computes the cotangents of this call's arguments.

        Its operands are all arguments, then the cotangents of the floating-point and complex
        results.

        Args:
            active: for each argument, whether to return its cotangent.
            args: the arguments, whose types the cotangents have.
        """
        avals = [jax.typeof(arg) for arg, yes in zip(args, active, strict=True) if yes]
        return self._derivative(self.function.vjp(active, self._inexact), avals)

    def jvp(self, active: tuple[bool, ...]) -> "TorchCall":
        """Describe the call that computes the tangents of this call's results.

        Its operands are all arguments, then the tangents of the active arguments. Its results are
        the tangents of the floating-point and complex results.

        Args:
            active: for each argument, whether it has a tangent.
        """
        avals = [aval for aval in self.result_avals if _is_inexact(aval)]
        return self._derivative(self.function.jvp(active, self._inexact), avals)


hold_weakly_in_caches(TorchCall)

_CALL_TORCH = Pure("call_torch")


def _is_inexact(aval: Aval) -> bool:
    """Return whether a type is floating-point or complex."""
    return jnp.issubdtype(aval.dtype, jnp.inexact)


def _call_primal(call: TorchCall, operands: Sequence[Any]) -> list[Any]:
    """Trace a call of a PyTorch function without a derivative rule.

    `call_differentiable` adds the derivative rule.

    Args:
        call: description of the call.
        operands: the function's arguments, arrays or tracers.

    Returns:
        an array or tracer for each result.
    """
    count = len(call.result_avals)
    target = _CALL_TORCH.target(
        call.function,
        jax.tree.structure(((0,) * len(operands), {})),
        (call.result_avals, jax.tree.structure(0 if count == 1 else (0,) * count)),
        site=call.site,
        vmap_method=call.vmap_method,
    )
    return _CALL_TORCH.primitive.bind(*operands, target=target)


def call_differentiable(call: TorchCall, *operands: Operand) -> list[Any]:
    """Trace a call of a PyTorch function that JAX can differentiate to any order.

    Args:
        call: description of the call.
        *operands: the function's arguments, arrays or tracers.

    Returns:
        an array or tracer for each result.
    """

    @jax.custom_jvp
    def primal(*args: Any) -> list[Any]:
        """Call the function without its derivative rule, which `rule` adds."""
        return _call_primal(call, args)

    def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """JVP rule: call the function, and its linear pushforward if tangents are nonzero.

        Args:
            primals: the function's arguments.
            tangents: a tangent for each argument, some of them symbolic zeros.

        Returns:
            the results, and a tangent for each result.
        """
        active = tuple(map(is_perturbed, tangents))
        active_tangents = list(itertools.compress(tangents, active))
        result_tangents = iter(
            _make_pushforward(call, active, primals)(primals, active_tangents)
            if active_tangents
            else ()
        )
        out = [
            next(result_tangents) if active_tangents and _is_inexact(aval) else zero_tangent(aval)
            for aval in call.result_avals
        ]
        return call_differentiable(call, *primals), out

    primal.defjvp(rule, symbolic_zeros=True)
    return primal(*vary_like(operands, operands))


def _make_pushforward(call: TorchCall, active: tuple[bool, ...], args: Sequence[Any]) -> LinearMap:
    """Make the linear map from argument tangents to result tangents of a call.

    Reverse mode transposes it, which calls the function's pullback (its VJP).

    Args:
        call: description of the call.
        active: for each argument, whether it has a tangent.
        args: the arguments.

    Returns:
        a map that is called with the arguments and with the tangents of the active arguments; it
        returns the tangents of the floating-point and complex results.
    """
    pushed, pulled = call.jvp(active), call.vjp(active, args)
    return LinearMap(
        transpose=lambda args, cotangents: call_differentiable(pulled, *args, *cotangents),
        evaluate=lambda args, tangents: call_differentiable(pushed, *args, *tangents),
        saved=len(args),
        result_avals=pushed.result_avals,
    )


def make_call(
    function: TensorFunction, avals: Sequence[ShapedArray], vmap_method: str
) -> TorchCall:
    """Describe a call of a PyTorch function, at the user's line that is traced.

    Args:
        function: the function, of tensors.
        avals: types of the results.
        vmap_method: behaviour under ``vmap``, as for ``pure_callback``.
    """
    return TorchCall(function, tuple(avals), vmap_method, user_site())
