"""Calls of callbacks that are linear: all derivatives follow from the transpose.

A call ``f(a, x)`` that is linear in ``x`` is a ``LinearMap`` (``linear_map.py``) with the leaves of
``a`` saved::

    y = bellhop_linear_map a x

Its derivative in the direction of ``x`` is the same map. Reverse mode transposes it to a call of
the user's transpose, which is a ``LinearMap`` too, with ``f`` as its transpose.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray

from bellhop.arguments.accepted_arguments import format_count
from bellhop.arguments.flat_tree import FlatTree
from bellhop.arguments.signature import array_types
from bellhop.base.source import user_site
from bellhop.base.types import Args
from bellhop.callbacks.linear_map import LinearMap
from bellhop.callbacks.rule_checks import check_cotangents, describe_rule
from bellhop.compiler.callback_target import describe_value
from bellhop.mesh.manual_axes import vary_like


@dataclass(frozen=True)
class LinearCall:
    """A pure callback that the user has declared linear, with its transpose.

    ``PureCallback.transpose`` makes it.

    Attributes:
        described: name of the callback in errors, such as ``"pure_callback 'f'"``.
        label: name and kind of the callback, for pictures.
        argnums: the positions of the linear arguments; None for all arguments.
        rule: the user's transpose, ``rule(*fixed_args, cotangent) -> cotangents``; None if the
            callback is its own transpose.
    """

    described: str
    label: tuple[str, ...]
    argnums: int | Sequence[int] | None
    rule: Callable[..., Any] | None

    def __call__(self, args: Args, call: Callable[..., Any]) -> Any:
        """Call the callback as a `LinearMap`, which JAX can differentiate; return its result.

        Args:
            args: arguments of the callback, pytrees of arrays.
            call: calls the callback without a derivative.

        Raises:
            TypeError: if a linear argument or a result is not floating-point or complex, or if
                `argnums` or `symmetric` do not fit the arguments.
        """
        positions = self._find_linear_positions(len(args))
        linear = [args[i] for i in positions]
        fixed = [arg for i, arg in enumerate(args) if i not in positions]
        for position, arg in zip(positions, linear, strict=True):
            self._check_inexact(
                arg,
                f"the argument {position}",
                "Cast the argument, or name only the linear arguments in argnums.",
            )
        saved, saved_tree = jax.tree.flatten(fixed)
        tangents, tangent_tree = jax.tree.flatten(linear)
        types = tuple(array_types(FlatTree.flatten(arg)) for arg in linear)
        in_avals = tuple(_to_aval(leaf) for leaf in tangents)
        result_tree: list[Any] = []

        def evaluate(saved: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
            """Call the callback with saved and linear leaves; return the result leaves.

            Also stores the result's tree structure in ``result_tree``, for `transpose`.

            Args:
                saved: leaves of the arguments that are not linear.
                tangents: leaves of the linear arguments, or of their tangents.
            """
            fixed = iter(jax.tree.unflatten(saved_tree, saved))
            linear = iter(jax.tree.unflatten(tangent_tree, tangents))
            result = call(*(next(linear if i in positions else fixed) for i in range(len(args))))
            leaves, tree = jax.tree.flatten(result)
            result_tree[:] = [tree]
            return leaves

        def transpose(saved: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
            """Call the transpose; return the cotangent leaves of the linear arguments.

            The transpose is the user's function `rule`; if `rule` is None, the callback itself.

            Args:
                saved: leaves of the arguments that are not linear.
                cotangents: cotangents of the result leaves.
            """
            if self.rule is None:
                return evaluate(saved, cotangents)
            fixed = jax.tree.unflatten(saved_tree, saved)
            found = self.rule(*fixed, jax.tree.unflatten(result_tree[0], cotangents))
            what = describe_rule("transpose", self.described, self.rule)
            return vary_like(cotangents, check_cotangents(found, what, types))

        out_avals = tuple(map(_to_aval, jax.eval_shape(evaluate, saved, tangents)))
        self._check_inexact(
            out_avals, "the result", "Declare and return a floating-point or complex result."
        )
        if self.rule is None and out_avals != in_avals:
            raise TypeError(
                f"{self._described_call} is declared symmetric, but its argument has type "
                f"{_describe(in_avals)} and its result {_describe(out_avals)}, expected equal "
                "types. Register a transpose in place of symmetric=True."
            )
        backward = LinearMap(evaluate, transpose, len(saved), in_avals, self.label)
        forward = LinearMap(backward, evaluate, len(saved), out_avals, self.label)
        results = forward(saved, tangents)
        return jax.tree.unflatten(result_tree[0], results)

    @property
    def _described_call(self) -> str:
        """Name of the callback with the user's line, for errors of a call."""
        return f"{self.described} (called from {user_site()})"

    def _find_linear_positions(self, n_args: int) -> list[int]:
        """Return the positions of the linear arguments in increasing order.

        Negative positions in `argnums` count from the end; for None all arguments are linear.

        Raises:
            TypeError: if `argnums` is empty or out of range, or a callback that is its own
                transpose has several linear arguments.
        """
        argnums = self.argnums
        if argnums is None:
            positions = list(range(n_args))
        else:
            given = [argnums] if isinstance(argnums, int) else list(argnums)
            positions = sorted({i + n_args if i < 0 else i for i in given})
        if not positions or not 0 <= positions[0] <= positions[-1] < n_args:
            if argnums is None:
                raise TypeError(
                    f"{self._described_call} is declared linear in all its arguments, but is "
                    "called with none. Pass the linear arguments."
                )
            raise TypeError(
                f"{self._described_call} is declared linear with argnums={argnums}, but is called "
                f"with {format_count(n_args, 'argument')}. Correct argnums, or pass the linear "
                "arguments."
            )
        if self.rule is None and len(positions) != 1:
            raise TypeError(
                f"{self._described_call} is declared symmetric with {len(positions)} linear "
                "arguments, expected 1. Name the linear argument with argnums, or register a "
                "transpose."
            )
        return positions

    def _check_inexact(self, values: Any, where: str, advice: str) -> None:
        """Raise an error unless all leaves of `values` are floating-point or complex.

        Args:
            where: description of the values, for errors.
            advice: the remedy, a sentence for errors.

        Raises:
            TypeError: if a leaf has another dtype.
        """
        for leaf in jax.tree.leaves(values):
            aval = _to_aval(leaf)
            if not jnp.issubdtype(aval.dtype, jnp.inexact):
                raise TypeError(
                    f"{self._described_call} is declared linear: {where} has type "
                    f"{describe_value(aval)}, expected a floating-point or complex type. {advice}"
                )


def _to_aval(leaf: Any) -> ShapedArray:
    """Return the shape and dtype of an array, number or type as a `ShapedArray`."""
    aval = leaf if hasattr(leaf, "dtype") and hasattr(leaf, "shape") else jax.typeof(leaf)
    return ShapedArray(tuple(aval.shape), aval.dtype)


def _describe(avals: Sequence[ShapedArray]) -> str:
    """Format types for errors, separated by commas."""
    return ", ".join(map(describe_value, avals))
