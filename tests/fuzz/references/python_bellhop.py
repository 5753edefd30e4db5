"""The names of bellhop that programs use, and what they mean without a compiler."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .arrays import calling, to_jax
from .loops import cond as cond
from .loops import for_loop as for_loop
from .loops import switch as switch
from .loops import while_loop as while_loop
from .python_jax import vmap as vmap
from .uncompiled_pennylane import measure as measure


def qjit(f: Callable[..., Any] | None = None, **_: Any) -> Any:
    if f is None:
        return qjit
    return lambda *args, **kwargs: to_jax(f(*to_jax(args), **to_jax(kwargs)))


def run_autograph(f: Callable[..., Any]) -> Callable[..., Any]:
    return f


def progress(over: Any, desc: str = "") -> Any:
    return (lambda body: body) if isinstance(over, int) else over


def call_torch(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of what stands for PyTorch here, which is JAX."""
    return f


def barrier_wait() -> None:
    """Nothing waits."""


class PureCallback:
    """A Python function with a derivative in terms of JAX."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.call = calling(function)

    def jvp(self, rule: Callable[..., Any]) -> None:
        self.call = jax.custom_jvp(self.call)
        self.call.defjvp(rule)

    def fwd(self, rule: Callable[..., Any]) -> None:
        self.call, self.forward = jax.custom_vjp(self.call), rule

    def bwd(self, rule: Callable[..., Any]) -> None:
        # A rule of one argument returns its cotangent alone.
        self.call.defvjp(self.forward, lambda *given: (rule(*given),))

    def __call__(self, *args: Any) -> Any:
        return self.call(*args)


def pure_callback(function: Callable[..., Any], like: Any, *args: Any, **_: Any) -> Any:
    return calling(function)(*args) if args else PureCallback(function)


def io_callback(function: Callable[..., Any], like: Any, *args: Any, **_: Any) -> Any:
    return calling(function)(*args) if args else calling(function)


def buffer_callback(function: Callable[..., Any], like: Any, **_: Any) -> Any:
    def call(*args: Any) -> Any:
        out = jax.tree.map(lambda x: np.empty(np.shape(x), jnp.result_type(x)), like)
        calling(lambda *args: function(None, out, *args))(*args)
        return to_jax(out)

    return call


def callback(function: Callable[..., Any], *args: Any, **_: Any) -> Any:
    def call(*args: Any) -> None:
        calling(lambda *args: function(*args))(*args)

    return call(*args) if args else call


def tap(function: Callable[..., Any], *args: Any) -> None:
    callback(function)(*args)


def debug_assert(condition: Any, error: str) -> None:
    if not np.all(condition):
        raise RuntimeError(error)


def accelerate(function: Callable[..., Any], **_: Any) -> Callable[..., Any]:
    return function


def _print(text: str, *values: Any, **_: Any) -> None:
    callback(lambda *arrays: print(text.format(*arrays)))(*values)


debug = SimpleNamespace(callback=callback, print=_print)
host_callback = SimpleNamespace(
    call=lambda function, arg, result_shape: calling(function)(arg),
)


def grad(f: Callable[..., Any], argnums: Any = 0) -> Callable[..., Any]:
    return jax.grad(f, argnums)


def value_and_grad(f: Callable[..., Any], argnums: Any = 0) -> Callable[..., Any]:
    return jax.value_and_grad(f, argnums)


def jacobian(f: Callable[..., Any], argnums: Any = 0) -> Callable[..., Any]:
    return jax.jacrev(f, argnums)


def jvp(f: Callable[..., Any], params: Any, tangents: Any, argnums: Any) -> Any:
    return jax.jvp(f, tuple(params), tuple(tangents))


def vjp(f: Callable[..., Any], params: Any, cotangents: Any, argnums: Any) -> Any:
    value, pull = jax.vjp(f, *params)
    return value, pull(*cotangents)
