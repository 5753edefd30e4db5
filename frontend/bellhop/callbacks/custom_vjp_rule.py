"""The derivative of a pure callback by ``fwd`` and ``bwd``; forward mode takes ``jvp``, if any.

    y = f(x)   becomes, differentiated,   y, residuals = fwd(x)
                                          dy = tangents[bwd] residuals dx

``bwd`` is called when reverse mode transposes the second; see ``linear_map``.
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
    """The rules of a callback, at one of its calls.

    Attributes:
        name: of the callback.
        described: how errors name the callback, such as ``"pure_callback 'f'"``.
        site: ``file:line`` of the call.
        out_tree: structure of the result.
        result_avals: its leaves.
        fwd: the user's, as are the others.
        bwd: of reverse mode, with ``fwd``.
        jvp: of forward mode.
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
        """Return what ``fwd`` says of the result, and the tangent: a rule of ``jax.custom_jvp``."""
        what = describe_rule("fwd", self.described, self.fwd)
        result, residuals = check_pair(self.fwd(*args), what, "residuals")
        check_residuals(residuals, what)
        active = [is_perturbed(tangent) for tangent in jax.tree.leaves(tangents)]
        moving = [x for x, yes in zip(jax.tree.leaves(tangents), active, strict=True) if yes]
        # Forward mode's rule asks for the arguments, too.
        point = residuals, args if self.jvp is not None else None
        moved = self._linear_map(args, point, active)(moving) if moving else None
        return result, self._expand_to_result(moved)

    def _linear_map(
        self, args: Args, point: Any, active: Sequence[bool]
    ) -> Callable[[Sequence[Any]], list[Any]]:
        """Return the map from tangents of active arguments to those of inexact results."""
        types = tuple(array_types(FlatTree.flatten(arg)) for arg in args)
        saved, tree = jax.tree.flatten(point)

        def transpose(saved: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
            what = describe_rule("bwd", self.described, self.bwd)
            residuals, _ = jax.tree.unflatten(tree, saved)
            found = self.bwd(residuals, self._expand_to_result(cotangents))
            found = vary_like(cotangents, check_cotangents(found, what, types))
            return [leaf for leaf, yes in zip(found, active, strict=True) if yes]

        def evaluate(saved: Sequence[Any], moving: Sequence[Any]) -> list[Any]:
            if self.jvp is None:
                raise self._forward_mode_error()
            _, args = jax.tree.unflatten(tree, saved)
            leaves, arguments = jax.tree.flatten(types)
            filled = jax.tree.unflatten(arguments, _fill_tangents(leaves, active, moving))
            tangents = tuple(tangent.unflatten() for tangent in filled)
            what = describe_rule("jvp", self.described, self.jvp)
            _, tangent = check_pair(self.jvp(args, tangents), what, "tangent of it")
            tangent = check_tangent(tangent, what, self.out_tree, self.result_avals)
            tangents = jax.tree.leaves(vary_like(args, tangent))
            return [leaf for leaf, yes in zip(tangents, self._inexact, strict=True) if yes]

        inexact = [aval for aval, yes in zip(self.result_avals, self._inexact, strict=True) if yes]
        linear = LinearMap(transpose, evaluate, len(saved), tuple(inexact))
        return lambda moving: linear(saved, moving)

    @property
    def _inexact(self) -> list[bool]:
        return [jnp.issubdtype(aval.dtype, jnp.inexact) for aval in self.result_avals]

    def _expand_to_result(self, inexact: Sequence[Any] | None) -> Any:
        """Return tangents or cotangents of the result, of which those of integers are zero."""
        given = [yes and inexact is not None for yes in self._inexact]
        return jax.tree.unflatten(
            self.out_tree, _fill_tangents(self.result_avals, given, inexact or ())
        )

    def _forward_mode_error(self) -> DifferentiableCompileError:
        return DifferentiableCompileError(
            f"{self.described} (called from {self.site}) is differentiated in forward "
            "mode, as by jax.jvp, jax.jacfwd or jax.hessian, and has fwd and bwd rules, which are "
            f"of reverse mode. Register a rule with @{self.name}.jvp as well, for forward mode; "
            "alone it gives both modes."
        )


def _fill_tangents(
    avals: Sequence[Any], given: Sequence[bool], tangents: Sequence[Any]
) -> list[Any]:
    """Return the tangents of values, zero where none is given."""
    each = iter(tangents)
    return [
        next(each) if yes else zero_tangent(aval) for aval, yes in zip(avals, given, strict=True)
    ]
