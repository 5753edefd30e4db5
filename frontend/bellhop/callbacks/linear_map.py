"""`LinearMap`: a primitive for the linear part of a derivative.

The JVP of a callback ``f(x)`` with ``fwd`` and ``bwd``::

    y residuals = fwd x
    y_dot = bellhop_linear_map residuals x_dot

Reverse mode transposes it to a call of ``bwd`` with the residuals and ``y_bar``.  Forward mode
evaluates it with the ``jvp`` rule; without that rule it is an error.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import JaxprEqn, Primitive
from jax.interpreters import ad, batching, mlir

from bellhop._jax.jaxprs import custom_lin_p
from bellhop._jax.private import hold_weakly_in_caches
from bellhop.base.types import Aval, Operand, PyTree
from bellhop.mesh.manual_axes import vary_types_like

Leaves = Sequence[Any]


@dataclass(frozen=True, eq=False)
class LinearMap:
    """A linear map from argument tangents to result tangents, and its transpose.

    Derivatives of callbacks and circuits are such maps. It is the parameter ``linear`` of an
    equation, whose operands are the saved values and the tangents. The coefficients of the map
    depend on the saved values, for instance residuals.

    Attributes:
        transpose: ``transpose(saved, cotangents)``: maps saved leaves and cotangents of the results
            to cotangents of the arguments.
        evaluate: ``evaluate(saved, tangents)``: maps saved leaves and tangents of the arguments to
            tangents of the results; raises an error if `has_only_transpose`.
        saved: number of saved leaves.
        result_avals: types of the results' tangents.
        callback: name and kind of the callback that it calls, for pictures; empty if there is none.
        circuit_params: parameters of the circuit equation whose derivative it is, for pictures;
            None for callbacks.
        as_matrix: an equal map that computes its Jacobian matrix from the saved leaves alone, or
            None.
        n_tangents: smallest batch of tangents at one point for which `as_matrix` is cheaper.
        has_only_transpose: whether the map cannot be evaluated, for instance for a callback without
            a ``jvp`` rule.
    """

    transpose: Callable[[Leaves, Leaves], list[Any]]
    evaluate: Callable[[Leaves, Leaves], list[Any]]
    saved: int
    result_avals: tuple[ShapedArray, ...]
    callback: tuple[str, ...] = ()
    circuit_params: Mapping[str, Any] | None = field(default=None, repr=False)
    as_matrix: "LinearMap | None" = field(default=None, repr=False)
    n_tangents: int = 0
    has_only_transpose: bool = False

    def __call__(self, saved: Leaves, tangents: Leaves) -> list[Any]:
        """Apply the map to tangents by binding its primitive, which JAX can transpose.

        Args:
            saved: the saved leaves, on which the coefficients of the map depend.
            tangents: leaves of the arguments' tangents.

        Returns:
            tangents of the results.
        """
        return linear_map_p.bind(*saved, *tangents, linear=self) if self.result_avals else []

    def split(self, operands: Leaves) -> tuple[Leaves, Leaves]:
        """Split operands into the saved leaves and the tangents."""
        return operands[: self.saved], operands[self.saved :]


def has_only_transpose(eqn: JaxprEqn) -> bool:
    """Return whether an equation is linear, and JAX can transpose it but not evaluate it.

    Such an equation is the derivative of a callback with ``fwd`` and ``bwd`` rules, or of a
    ``jax.custom_vjp`` function.
    """
    if eqn.primitive is linear_map_p:
        return bool(eqn.params["linear"].has_only_transpose)
    return eqn.primitive is custom_lin_p


hold_weakly_in_caches(LinearMap)

linear_map_p = Primitive("bellhop_linear_map")
linear_map_p.multiple_results = True


@linear_map_p.def_impl
def _evaluate(*operands: Operand, linear: LinearMap) -> list[Any]:
    """Compute the results of a linear map: the impl rule, also traced for lowering."""
    return linear.evaluate(*linear.split(operands))


@linear_map_p.def_abstract_eval
def _abstract_eval(*avals: Aval, linear: LinearMap) -> Sequence[Any]:
    """Return the types of a linear map's results: the abstract evaluation rule."""
    return vary_types_like(avals, linear.result_avals)


def _transpose(cotangents: Leaves, *operands: Operand, linear: LinearMap) -> list[Any]:
    """Transpose a linear map: the transpose rule of its primitive.

    Args:
        cotangents: cotangents of the results, some of them symbolic zeros.
        *operands: saved leaves, then tangents; JAX passes ``UndefinedPrimal`` for a tangent whose
            cotangent it needs.

    Returns:
        None for each saved leaf; then for each tangent its cotangent, or None if it is not an
        ``UndefinedPrimal``.
    """
    saved, tangents = linear.split(operands)
    found = linear.transpose(saved, list(map(ad.instantiate_zeros, cotangents)))
    return [None] * len(saved) + [
        cotangent if ad.is_undefined_primal(tangent) else None
        for cotangent, tangent in zip(found, tangents, strict=True)
    ]


def _jvp(primals: Leaves, tangents: Leaves, *, linear: LinearMap) -> tuple[list[Any], list[Any]]:
    """Differentiate the call of a linear map: the JVP rule of its primitive.

    The map is linear in its tangent operands, so its derivative in their direction is the same map.
    If saved values are perturbed as well, JAX differentiates ``evaluate``.

    Args:
        primals: the operands of the call: saved leaves, then tangents.
        tangents: a tangent for each operand, some of them symbolic zeros.
        linear: the map.

    Returns:
        the results, and their tangents.
    """
    results = linear_map_p.bind(*primals, linear=linear)
    saved, moving = linear.split(tangents)
    if not any(map(is_perturbed, saved)):
        return results, linear(primals[: linear.saved], list(map(ad.instantiate_zeros, moving)))
    places = [i for i, tangent in enumerate(tangents) if is_perturbed(tangent)]

    def evaluate(*perturbed: Any) -> list[Any]:
        """Evaluate the map with other values for the operands whose tangents are nonzero."""
        operands = list(primals)
        for place, operand in zip(places, perturbed, strict=True):
            operands[place] = operand
        return _evaluate(*operands, linear=linear)

    of_perturbed = [primals[i] for i in places], [tangents[i] for i in places]
    return results, jax.jvp(evaluate, *of_perturbed)[1]


def is_perturbed(tangent: PyTree) -> bool:
    """Return whether a tangent may be nonzero: not a symbolic zero and not float0."""
    if isinstance(tangent, jax.custom_derivatives.SymbolicZero | ad.Zero):
        return False
    return jax.typeof(tangent).dtype != jax.dtypes.float0


def zero_tangent(value: Any) -> Any:
    """Return the zero tangent of a value or type, of dtype float0 for integers.

    Args:
        value: array, number, or a type with ``shape`` and ``dtype``.
    """
    aval = value if hasattr(value, "dtype") else jax.typeof(value)
    if jnp.issubdtype(aval.dtype, jnp.inexact):
        return jnp.zeros(aval.shape, aval.dtype)
    return np.zeros(aval.shape, jax.dtypes.float0)


def _batch(
    axis: Any, operands: Leaves, dims: Sequence[Any], *, linear: LinearMap
) -> tuple[list[Any], list[int | None]]:
    """Batching rule of the linear map's primitive: bind a map for the whole batch.

    The new map's ``transpose`` and ``evaluate`` are ``jax.vmap`` of the functions for one element.
    If only tangents are batched, and the batch has at least `linear.n_tangents` elements, then
    `linear.as_matrix`, if it is set, is batched in place of `linear`. The cotangent of a tangent
    operand without batch axis is summed over the batch.

    Args:
        axis: JAX's description of the batch axis: size and name.
        operands: saved leaves, then tangents.
        dims: batch axis of each operand, or None.
        linear: the map for one element.

    Returns:
        the results, and their batch axes: 0, or None if no operand is batched.
    """
    if all(dim is None for dim in dims):
        results = linear_map_p.bind(*operands, linear=linear)
        return results, [None] * len(results)
    in_saved, in_tangents = linear.split(dims)
    at_one_point = all(dim is None for dim in in_saved)
    if linear.as_matrix is not None and at_one_point and axis.size >= linear.n_tangents:
        linear = linear.as_matrix
    mapped = {"axis_size": axis.size, "axis_name": axis.name, "spmd_axis_name": axis.spmd_name}

    def transpose(saved: Leaves, cotangents: Leaves) -> list[Any]:
        """Map ``linear.transpose`` over the batch; sum cotangents of tangents without batch axis.

        Args:
            saved: saved leaves, some of them batched.
            cotangents: cotangents of the results, batched along axis 0.

        Returns:
            for each tangent operand its cotangent, with the operand's batch axis if it has one.
        """
        each = jax.vmap(linear.transpose, (list(in_saved), 0), **mapped)(list(saved), cotangents)
        return [
            cotangent.sum(0) if dim is None else jnp.moveaxis(cotangent, 0, dim)
            for cotangent, dim in zip(each, in_tangents, strict=True)
        ]

    def evaluate(saved: Leaves, tangents: Leaves) -> list[Any]:
        """Map ``linear.evaluate`` over the batch; the results have batch axis 0."""
        axes = list(in_saved), list(in_tangents)
        return jax.vmap(linear.evaluate, axes, **mapped)(list(saved), list(tangents))

    avals = tuple(ShapedArray((axis.size, *a.shape), a.dtype) for a in linear.result_avals)
    batched = replace(linear, transpose=transpose, evaluate=evaluate, result_avals=avals)
    return linear_map_p.bind(*operands, linear=batched), [0 for _ in avals]


ad.primitive_transposes[linear_map_p] = _transpose
ad.primitive_jvps[linear_map_p] = _jvp
batching.fancy_primitive_batchers[linear_map_p] = _batch
mlir.register_lowering(
    linear_map_p, mlir.lower_fun(_evaluate, multiple_results=True), cacheable=False
)
