"""Functions of flat arrays for other frameworks, whose derivatives are such functions again."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from bellhop.base.types import Operand


class FlatFunction:
    """A function of arrays, compiled; its derivatives and its mapped one are such again.

    Args:
        function: takes arrays and returns a pytree of such.
        name: what it is called.
        compiler: compiles it: ``qjit``.
        latest: see below; a new one where None.

    Attributes:
        name: what it is called.
        latest: in ``tree``, the structure of what the last call in this thread returned, by
            whichever of the functions that are this one with other axes mapped.
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
        """Return the function of arguments and cotangents that returns active cotangents."""

        def pull(*leaves: Operand) -> list[Any]:
            args, cotangents = leaves[: len(active)], leaves[len(active) :]
            results, transpose = jax.vjp(*self._restrict_to_active(args, active))
            pairs = zip(cotangents, results, strict=True)
            return list(transpose([jnp.asarray(ct, result.dtype) for ct, result in pairs]))

        return self._derive("vjp", active, pull)

    def pushforward(self, active: tuple[bool, ...]) -> "FlatFunction":
        """Return the function of arguments and active tangents that returns tangents."""

        def push(*leaves: Operand) -> list[Any]:
            args, tangents = leaves[: len(active)], leaves[len(active) :]
            function, *primals = self._restrict_to_active(args, active)
            return jax.jvp(function, primals, list(tangents))[1]

        return self._derive("jvp", active, push)

    def vmap(self, axes: tuple[int | None, ...], size: int) -> "FlatFunction":
        """Return the function of arguments with mapped axes; its results have theirs first."""
        each = jax.vmap(self._function, in_axes=axes, axis_size=size)
        return self._derive("vmap", (axes, size), lambda *leaves: each(*leaves), self.latest)

    def _restrict_to_active(self, args: Sequence[Any], active: tuple[bool, ...]) -> tuple[Any, ...]:
        """Return the function of active arguments that returns inexact results, and these."""

        def active_function(*moving: Any) -> list[Any]:
            found = iter(moving)
            both = [next(found) if yes else arg for arg, yes in zip(args, active, strict=True)]
            results = map(jnp.asarray, jax.tree.leaves(self._function(*both)))
            return [result for result in results if jnp.issubdtype(result.dtype, jnp.inexact)]

        return active_function, *(arg for arg, yes in zip(args, active, strict=True) if yes)

    def _derive(
        self, kind: str, key: object, function: Callable[..., Any], latest: Any = None
    ) -> "FlatFunction":
        # Always the same one, which is compiled once.
        if (kind, key) not in self._derived:
            self._derived[kind, key] = FlatFunction(
                function, f"{kind}_{self.name}", self._compiler, latest
            )
        return self._derived[kind, key]
