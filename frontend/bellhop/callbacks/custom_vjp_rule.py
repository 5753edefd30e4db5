"""Derivative of a pure callback with ``fwd`` and ``bwd`` rules.

    y = f(x)   becomes, differentiated,   y, residuals = fwd(x)
                                          dy = linear_map[bwd] residuals dx

Reverse mode transposes ``linear_map`` to a call of ``bwd``. Forward mode evaluates it with the
``jvp`` rule, and is an error without that rule. See ``linear_map.py``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray

from bellhop.arguments.flat_tree import FlatTree
from bellhop.arguments.signature import array_types
from bellhop.base.types import Args, PyTree
from bellhop.callbacks.linear_map import LinearMap, is_perturbed, zero_tangent
from bellhop.callbacks.rule_checks import (
    check_cotangents,
    check_pair,
    check_residuals,
    check_tangent,
    describe_rule,
)
from bellhop.errors import DifferentiableCompileError
from bellhop.mesh.manual_axes import vary_like

Rule = Callable[..., Any]


@dataclass(frozen=True)
class CustomVjpRule:
    """The ``fwd``, ``bwd`` and ``jvp`` rules of a pure callback, for one of its calls.

    `PureCallback` makes it while it traces a call.

    Attributes:
        name: name of the callback.
        described: name of the callback in errors, such as ``"pure_callback 'f'"``.
        site: ``file:line`` of the call.
        out_tree: tree structure of the result.
        result_avals: types of the result leaves.
        fwd: the user's forward pass, ``fwd(*args) -> (result, residuals)``.
        bwd: the user's backward pass, ``bwd(residuals, cotangent) -> cotangents``.
        jvp: the user's forward-mode rule, ``jvp(primals, tangents) -> (result, tangent)``, or None.
    """

    name: str
    described: str
    site: str
    out_tree: Any
    result_avals: tuple[ShapedArray, ...]
    fwd: Rule
    bwd: Rule
    jvp: Rule | None

    def differentiate(self, args: Args, tangents: PyTree) -> tuple[Any, Any]:
        """Call ``fwd``; return the result and its tangent, as a ``jax.custom_jvp`` rule.

        Args:
            args: arguments of the callback, pytrees of arrays.
            tangents: their tangents; a tangent that is zero is a ``SymbolicZero``.

        Returns:
            the result of ``fwd``, and its tangent, a pytree of the result's structure. A
            `LinearMap` of the nonzero tangents computes the tangent; it is zero if there are none,
            and ``float0`` for integer leaves.

        Raises:
            TypeError: if ``fwd`` does not return a pair, or the residuals are not arrays.
        """
        what = describe_rule("fwd", self.described, self.fwd)
        result, residuals = check_pair(self.fwd(*args), what, "the residuals")
        check_residuals(residuals, what)
        active = [is_perturbed(tangent) for tangent in jax.tree.leaves(tangents)]
        moving = [x for x, yes in zip(jax.tree.leaves(tangents), active, strict=True) if yes]
        # The jvp rule needs the arguments as well.
        point = residuals, args if self.jvp is not None else None
        moved = self._linear_map(args, point, active)(moving) if moving else None
        return result, self._expand_to_result(moved)

    def _linear_map(
        self, args: Args, point: Any, active: Sequence[bool]
    ) -> Callable[[Sequence[Any]], list[Any]]:
        """Return the map from tangents of active arguments to tangents of the result.

        Reverse mode transposes the map by ``bwd``; forward mode evaluates it by ``jvp``.

        Args:
            args: arguments of the callback, pytrees of arrays.
            point: saved values, the pair ``(residuals, args)``; None in place of the arguments if
                there is no ``jvp`` rule.
            active: for each argument leaf, whether its tangent may be nonzero.

        Returns:
            a function, which JAX can transpose, from the list of active tangent leaves to the list
            of tangents of the inexact result leaves.
        """
        types = tuple(array_types(FlatTree.flatten(arg)) for arg in args)
        saved, tree = jax.tree.flatten(point)

        def transpose(saved: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
            """Call ``bwd``; return the cotangents of the active argument leaves.

            The transpose of the map from `_linear_map`.

            Args:
                saved: leaves of the residuals, then of the arguments if there is a ``jvp`` rule.
                cotangents: cotangents of the inexact result leaves.
            """
            what = describe_rule("bwd", self.described, self.bwd)
            residuals, _ = jax.tree.unflatten(tree, saved)
            found = self.bwd(residuals, self._expand_to_result(cotangents))
            found = vary_like(cotangents, check_cotangents(found, what, types))
            return [leaf for leaf, yes in zip(found, active, strict=True) if yes]

        def evaluate(saved: Sequence[Any], active_tangents: Sequence[Any]) -> list[Any]:
            """Call the ``jvp`` rule; return the tangents of the inexact result leaves.

            The forward evaluation of the map from `_linear_map`.

            Args:
                saved: leaves of the residuals, then of the arguments.
                active_tangents: tangents of the active argument leaves; all other tangents are
                    zero.

            Raises:
                DifferentiableCompileError: if the callback has no ``jvp`` rule.
                TypeError: if the rule does not return a pair, or its tangent has the wrong type.
            """
            if self.jvp is None:
                raise self._forward_mode_error()
            _, args = jax.tree.unflatten(tree, saved)
            leaves, arguments = jax.tree.flatten(types)
            filled = jax.tree.unflatten(arguments, _fill_tangents(leaves, active, active_tangents))
            tangents = tuple(tangent.unflatten() for tangent in filled)
            what = describe_rule("jvp", self.described, self.jvp)
            _, tangent = check_pair(self.jvp(args, tangents), what, "the tangent of the result")
            tangent = check_tangent(tangent, what, self.out_tree, self.result_avals)
            tangents = jax.tree.leaves(vary_like(args, tangent))
            return [leaf for leaf, yes in zip(tangents, self._inexact, strict=True) if yes]

        inexact = [aval for aval, yes in zip(self.result_avals, self._inexact, strict=True) if yes]
        linear = LinearMap(
            transpose,
            evaluate,
            len(saved),
            tuple(inexact),
            has_only_transpose=self.jvp is None,
        )
        return lambda moving: linear(saved, moving)

    @property
    def _inexact(self) -> list[bool]:
        """For each result leaf, whether it is floating-point or complex."""
        return [jnp.issubdtype(aval.dtype, jnp.inexact) for aval in self.result_avals]

    def _expand_to_result(self, inexact: Sequence[Any] | None) -> Any:
        """Return a tangent or cotangent of the whole result from its inexact leaves.

        Args:
            inexact: tangents or cotangents of the floating-point and complex leaves, in order; None
                if all are zero.

        Returns:
            a pytree with the structure of the result; zeros in place of None, and ``float0`` zeros
            for integer and boolean leaves.
        """
        given = [yes and inexact is not None for yes in self._inexact]
        return jax.tree.unflatten(
            self.out_tree, _fill_tangents(self.result_avals, given, inexact or ())
        )

    def _forward_mode_error(self) -> DifferentiableCompileError:
        """Return the error for forward mode of a callback without a ``jvp`` rule."""
        return DifferentiableCompileError(
            f"{self.described} (called from {self.site}) is differentiated in forward mode, as by "
            "jax.jvp, jax.jacfwd or jax.hessian, but its fwd and bwd rules define reverse mode "
            f"only. Register a rule with @{self.name}.jvp as well; a jvp rule alone gives both "
            "modes."
        )


def _fill_tangents(
    avals: Sequence[Any], given: Sequence[bool], tangents: Sequence[Any]
) -> list[Any]:
    """Return a tangent for each value: the next of `tangents`, or zero.

    Args:
        avals: types of the values.
        given: for each value, whether `tangents` has a tangent for it.
        tangents: the tangents of the values for which `given` is true, in order.
    """
    each = iter(tangents)
    return [
        next(each) if yes else zero_tangent(aval) for aval, yes in zip(avals, given, strict=True)
    ]
