"""Compiled functions of flat arrays for other frameworks, and their derivatives."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from bellhop.base.types import Operand


class FlatFunction:
    """A compiled function of arrays; its derivatives and `vmap` are FlatFunctions.

    Args:
        function: takes arrays and returns a pytree of arrays.
        name: name of the function.
        compiler: compiles a function: ``qjit``.
        latest: thread-local object for the result structure; created if None.

    Attributes:
        name: name of the function.
        latest: its attribute ``tree`` is the structure of the last result in this thread, shared
            with the mapped variants.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        compiler: Callable[..., Any],
        latest: Any = None,
    ) -> None:
        self.name = name
        self.latest = latest or threading.local()
        self._function = function
        function.__name__ = name
        self._compiler = compiler
        self._compiled = compiler(function)
        self._derived: dict[Any, FlatFunction] = {}

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the leaves of the result."""
        results, self.latest.tree = jax.tree.flatten(self._compiled(*arrays))
        return results

    def pullback(self, active: tuple[bool, ...]) -> "FlatFunction":
        """Return the VJP: a function of arguments and cotangents.

        Args:
            active: for each argument, whether to return its cotangent.
        """

        def pull(*leaves: Operand) -> list[Any]:
            args, cotangents = leaves[: len(active)], leaves[len(active) :]
            results, transpose = jax.vjp(*self._restrict_to_active(args, active))
            pairs = zip(cotangents, results, strict=True)
            return list(transpose([jnp.asarray(ct, result.dtype) for ct, result in pairs]))

        return self._derive("vjp", active, pull)

    def pushforward(self, active: tuple[bool, ...]) -> "FlatFunction":
        """Return the JVP: a function of arguments and tangents of active arguments.

        Args:
            active: for each argument, whether it has a tangent.
        """

        def push(*leaves: Operand) -> list[Any]:
            args, tangents = leaves[: len(active)], leaves[len(active) :]
            function, *primals = self._restrict_to_active(args, active)
            return jax.jvp(function, primals, list(tangents))[1]

        return self._derive("jvp", active, push)

    def vmap(self, axes: tuple[int | None, ...], size: int) -> "FlatFunction":
        """Return the batched function; results have the batch axis first.

        Args:
            axes: batch axis of each argument, or None.
            size: number of elements.
        """
        each = jax.vmap(self._function, in_axes=axes, axis_size=size)
        return self._derive("vmap", (axes, size), lambda *leaves: each(*leaves), self.latest)

    def _restrict_to_active(self, args: Sequence[Any], active: tuple[bool, ...]) -> tuple[Any, ...]:
        """Return the function of active arguments with inexact results, and its arguments."""

        def active_function(*active_args: Any) -> list[Any]:
            """Call the function with fixed inactive arguments; return inexact results."""
            remaining = iter(active_args)
            all_args = [
                next(remaining) if yes else arg for arg, yes in zip(args, active, strict=True)
            ]
            results = map(jnp.asarray, jax.tree.leaves(self._function(*all_args)))
            return [result for result in results if jnp.issubdtype(result.dtype, jnp.inexact)]

        return active_function, *(arg for arg, yes in zip(args, active, strict=True) if yes)

    def _derive(
        self, kind: str, key: object, function: Callable[..., Any], latest: Any = None
    ) -> "FlatFunction":
        """Return a cached derived function, so that it is compiled once."""
        # Cached, so that it is compiled once.
        if (kind, key) not in self._derived:
            self._derived[kind, key] = FlatFunction(
                function, f"{kind}_{self.name}", self._compiler, latest
            )
        return self._derived[kind, key]
