"""Compiled functions of flat arrays for other frameworks, and their derivatives."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from bellhop.base.types import Operand


class FlatFunction:
    """A compiled function from arrays to a list of arrays, for PyTorch, autograd etc.

    These frameworks differentiate and batch functions of flat arrays only. Derivatives and ``vmap``
    of a FlatFunction are FlatFunctions, which are compiled once and cached in it.

    Args:
        function: takes arrays as positional arguments and returns a pytree of arrays; its
            ``__name__`` is set to `name`.
        name: name of the compiled function.
        compiler: compiles a function: ``qjit``.
        latest: ``threading.local`` object that receives the result structure; created if None.

    Attributes:
        name: name of the compiled function.
        latest: its attribute ``tree`` is the ``PyTreeDef`` of the last result in this thread; the
            batched functions from ``vmap`` set the same object.
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
        """Call the compiled function; return the leaves of its result, and set ``latest.tree``."""
        results, self.latest.tree = jax.tree.flatten(self._compiled(*arrays))
        return results

    def pullback(self, active: tuple[bool, ...]) -> "FlatFunction":
        """Return the VJP: a function of arguments and cotangents.

        The returned function takes all arguments and then one cotangent for each floating-point or
        complex result; it returns one cotangent for each active argument.

        Args:
            active: for each argument, whether to return its cotangent.
        """

        def pull(*leaves: Operand) -> list[Any]:
            """Compute the cotangents of the active arguments by ``jax.vjp``.

            Args:
                *leaves: all arguments of the function, then one cotangent for each
                    floating-point or complex result.
            """
            args, cotangents = leaves[: len(active)], leaves[len(active) :]
            results, transpose = jax.vjp(*self._restrict_to_active(args, active))
            pairs = zip(cotangents, results, strict=True)
            return list(transpose([jnp.asarray(ct, result.dtype) for ct, result in pairs]))

        return self._derive("vjp", active, pull)

    def pushforward(self, active: tuple[bool, ...]) -> "FlatFunction":
        """Return the JVP: a function of arguments and tangents of active arguments.

        The returned function takes all arguments and then one tangent for each active argument; it
        returns the tangents of the floating-point and complex results, without the results.

        Args:
            active: for each argument, whether it has a tangent.
        """

        def push(*leaves: Operand) -> list[Any]:
            """Return the tangents of the inexact results, for `FlatFunction.pushforward`."""
            args, tangents = leaves[: len(active)], leaves[len(active) :]
            function, *primals = self._restrict_to_active(args, active)
            return jax.jvp(function, primals, list(tangents))[1]

        return self._derive("jvp", active, push)

    def vmap(self, axes: tuple[int | None, ...], size: int) -> "FlatFunction":
        """Return the function batched by ``jax.vmap``; its results have the batch axis 0.

        Args:
            axes: batch axis of each argument; None for an argument without one.
            size: size of the batch axis.
        """
        each = jax.vmap(self._function, in_axes=axes, axis_size=size)
        return self._derive("vmap", (axes, size), lambda *leaves: each(*leaves), self.latest)

    def _restrict_to_active(self, args: Sequence[Any], active: tuple[bool, ...]) -> tuple[Any, ...]:
        """Build the function of the active arguments only, for ``jax.vjp`` or ``jax.jvp``.

        Args:
            args: all arguments.
            active: for each argument, whether it is differentiated; the other arguments are
                constants of the new function.

        Returns:
            the tuple ``(function, *active_args)``. ``function`` takes the active arguments and
            returns a list of the floating-point and complex results.
        """

        def active_function(*active_args: Any) -> list[Any]:
            """Call the function with new active arguments; return its inexact results.

            Inexact results are floating-point and complex. Inactive arguments are fixed.
            """
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
        """Return a derivative or batched form of this function, made and compiled once.

        Args:
            kind: prefix of its name: ``"vjp"``, ``"jvp"`` or ``"vmap"``.
            key: hashable parameters that distinguish functions of this kind, such as `active`.
            function: its implementation, used only if the cache has none.
            latest: object that receives the result structure; None for a new object.
        """
        if (kind, key) not in self._derived:
            self._derived[kind, key] = FlatFunction(
                function, f"{kind}_{self.name}", self._compiler, latest
            )
        return self._derived[kind, key]
