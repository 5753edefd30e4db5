"""JAX without compiling: one operation after another, batches one row after another."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp

from .arrays import calling, to_jax
from .loops import Lax


def vmap(f: Callable[..., Any], in_axes: Any = 0) -> Callable[..., Any]:
    """Call a function for each row, and stack what it returns."""

    def mapped(*args: Any) -> Any:
        axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
        count = next(len(arg) for arg, axis in zip(args, axes, strict=True) if axis == 0)
        rows = [
            f(*(arg if axis is None else arg[i] for arg, axis in zip(args, axes, strict=True)))
            for i in range(count)
        ]
        return jax.tree.map(lambda *row: jnp.stack(to_jax(row)), *rows)

    return lambda *args: mapped(*to_jax(args))


def _callback(function: Callable[..., Any], *args: Any, **_: Any) -> None:
    calling(lambda *args: function(*args))(*args)


def _print(text: str, *values: Any, **_: Any) -> None:
    _callback(lambda *arrays: print(text.format(*arrays)), *values)


def _call(function: Callable[..., Any], like: Any, *args: Any, **_: Any) -> Any:
    return calling(function)(*args)


def _buffer(function: Callable[..., Any], like: Any, **_: Any) -> Any:
    from .python_bellhop import buffer_callback

    return buffer_callback(function, like)


class PythonJax:
    """The module ``jax``, but for what this changes."""

    jit = staticmethod(
        lambda f, **_: lambda *args, **kwargs: to_jax(f(*to_jax(args), **to_jax(kwargs)))
    )
    checkpoint = staticmethod(lambda f: f)
    vmap = staticmethod(vmap)
    lax = Lax
    debug = SimpleNamespace(callback=_callback, print=_print)
    pure_callback = staticmethod(_call)
    experimental = SimpleNamespace(
        io_callback=_call, buffer_callback=SimpleNamespace(buffer_callback=_buffer)
    )

    def __getattr__(self, name: str) -> Any:
        return getattr(jax, name)
