"""The names of PyTorch that programs use, and what they mean without it."""

import contextlib
from collections.abc import Callable
from types import TracebackType
from typing import Any

import jax
import jax.numpy as jnp

sin = jnp.sin
tanh = jnp.tanh
bfloat16 = jnp.bfloat16


class _Mode(contextlib.AbstractContextManager[None]):
    """A mode: around a call of a program it changes nothing, and around a function little.

    Args:
        has_derivatives: whether PyTorch differentiates a function that runs in it.
    """

    def __init__(self, *, has_derivatives: bool = True) -> None:
        self._has_derivatives = has_derivatives

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if self._has_derivatives:
            return function
        return lambda *args: jax.lax.stop_gradient(function(*args))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None


def no_grad() -> _Mode:
    return _Mode(has_derivatives=False)


def inference_mode() -> _Mode:
    return _Mode(has_derivatives=False)


def enable_grad() -> _Mode:
    return _Mode()


def autocast(device: str, dtype: Any = None) -> _Mode:
    """Return a mode for products of matrices, which these programs do not ask of PyTorch."""
    return _Mode()


def device(name: str) -> _Mode:
    return _Mode()
