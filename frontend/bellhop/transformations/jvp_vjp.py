"""jvp and vjp: derivatives times vectors, of hybrid functions."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from bellhop.arguments.flat_tree import describe_structure
from bellhop.base.source import describe_derived_function
from bellhop.base.types import PyTree
from bellhop.callbacks.linear_map import zero_tangent
from bellhop.control_flow.while_loop_vjp import enable_while_transpose
from bellhop.transformations.finite_differences import check_method, with_finite_differences
from bellhop.transformations.grad import Argnums, Function, check_arguments
from bellhop.transformations.inline_trace import trace_inline


def jvp(
    f: Function,
    params: Sequence[Any],
    tangents: Sequence[Any],
    *,
    method: str | None = None,
    h: float | None = None,
    argnums: Argnums | None = None,
) -> tuple[Any, Any]:
    """Return the value of a function and the derivative in one direction.

    Args:
        f: the function, with any pytree of arrays as result.
        params: a sequence with all its arguments.
        tangents: a sequence with the direction for each differentiated argument, of the
            structure, shapes and dtypes of that argument.
        method: as of ``grad``.
        h: as of ``grad``.
        argnums: as of ``grad``.

    Returns:
        the value, and the derivative of the same structure.

    Raises:
        TypeError: where the tangents do not fit the arguments.
        DifferentiableCompileError: as of ``grad``.

    Example:
        >>> import bellhop
        >>> value, tangent = bellhop.qjit(lambda x: bellhop.jvp(lambda y: y**3, [x], [1.0]))(2.0)
        >>> float(value), float(tangent)
        (8.0, 12.0)

    The interface is that of PennyLane's and Catalyst's ``jvp``.
    """
    positions = _resolve_positions("jvp", f, params, argnums)
    check_method("jvp", method, h)
    if not isinstance(tangents, Sequence) or len(tangents) != len(positions):
        raise TypeError(
            f"{describe_derived_function('jvp', f)}: {len(positions)} arguments are "
            f"differentiated (argnums), so "
            f"there must be a sequence of as many tangents; it is {tangents!r}."
        )
    for position, tangent in zip(positions, tangents, strict=True):
        _check_same_shape(
            "jvp", f, f"the tangent of argument {position}", tangent, params[position]
        )
    function, primals = _restrict_to_differentiated(f, params, positions)
    if method == "fd":
        function = with_finite_differences(function, h)
    return jax.jvp(
        function, primals, [_cast_tangent(t, p) for t, p in zip(tangents, primals, strict=True)]
    )


def vjp(
    f: Function,
    params: Sequence[Any],
    cotangents: Sequence[Any],
    *,
    method: str | None = None,
    h: float | None = None,
    argnums: Argnums | None = None,
) -> tuple[Any, Any]:
    """Return the value of a function and its vector-Jacobian product with cotangents.

    Args:
        f: the function, with any pytree of arrays as result.
        params: a sequence with all its arguments.
        cotangents: a pytree with the leaves of the result, in order.
        method: as of ``grad``.
        h: as of ``grad``.
        argnums: as of ``grad``.

    Returns:
        the value, and the derivative by the differentiated argument, the first without
        ``argnums``; a tuple where ``argnums`` is a sequence.

    Raises:
        TypeError: where the cotangents do not fit the result.
        DifferentiableCompileError: as of ``grad``.

    Example:
        >>> import bellhop
        >>> f = bellhop.qjit(lambda x: bellhop.vjp(lambda y: y**3, [x], [2.0]))
        >>> value, cotangent = f(2.0)
        >>> float(value), float(cotangent)
        (8.0, 24.0)

    The interface is that of PennyLane's and Catalyst's ``vjp``.
    """
    positions = _resolve_positions("vjp", f, params, argnums)
    check_method("vjp", method, h)
    function, primals = _restrict_to_differentiated(f, params, positions)
    if method == "fd":
        slopes: Any
        value = function(*primals)
        checked = _check_cotangents(f, cotangents, value)
        approximated = with_finite_differences(function, h)
        slopes = jax.jacfwd(
            lambda *args: _inner_product(approximated(*args), checked),
            argnums=tuple(range(len(primals))),
        )(*primals)
    else:
        with enable_while_transpose(describe_derived_function("vjp", f)):
            value, pullback = jax.vjp(function, *primals)
            slopes = pullback(_check_cotangents(f, cotangents, value))
    return value, slopes if isinstance(argnums, Sequence) else slopes[0]


def _resolve_positions(
    name: str, f: Function, params: Sequence[Any], argnums: Argnums | None
) -> list[int]:
    if not callable(f):
        raise TypeError(f"{name} takes a function, got {f!r} of type {type(f).__name__}.")
    if not isinstance(params, Sequence):
        raise TypeError(
            f"{describe_derived_function(name, f)} takes the arguments of the function in a "
            f"sequence, got {type(params).__name__}. Write [x] for one argument x."
        )
    positions = 0 if argnums is None else argnums
    check_arguments(name, f, positions, params)
    return [positions] if isinstance(positions, int) else list(positions)


def _restrict_to_differentiated(
    f: Function, params: Sequence[Any], positions: list[int]
) -> tuple[Function, list[Any]]:
    """Return ``f`` as a function of the differentiated arguments alone, and those."""

    def function(*primals: Any) -> Any:
        args = list(params)
        for position, primal in zip(positions, primals, strict=True):
            args[position] = primal
        return trace_inline(f)(*args)

    return function, [jax.tree.map(jnp.asarray, params[position]) for position in positions]


def _check_cotangents(f: Function, cotangents: PyTree, value: object) -> Any:
    leaves, tree = jax.tree.flatten(value)
    given = jax.tree.leaves(cotangents)
    if len(given) != len(leaves):
        raise TypeError(
            f"{describe_derived_function('vjp', f)}: the result has {len(leaves)} arrays, so "
            f"there must be as many cotangents; there are {len(given)}."
        )
    for index, (cotangent, leaf) in enumerate(zip(given, leaves, strict=True)):
        _check_same_shape("vjp", f, f"the cotangent of result {index}", cotangent, leaf)
    return jax.tree.unflatten(
        tree, [_cast_tangent(ct, v) for ct, v in zip(given, leaves, strict=True)]
    )


def _inner_product(value: object, cotangents: PyTree) -> Any:
    return sum(
        jnp.sum(cotangent * leaf)
        for cotangent, leaf in zip(jax.tree.leaves(cotangents), jax.tree.leaves(value), strict=True)
        if cotangent.dtype != jax.dtypes.float0
    )


def _cast_tangent(tangent: PyTree, primal: PyTree) -> Any:
    """Return a tangent in the dtype of its primal; integers have none that says anything."""

    def leaf(tangent: PyTree, primal: PyTree) -> Any:
        dtype = jnp.result_type(primal)
        is_inexact = jnp.issubdtype(dtype, jnp.inexact)
        return jnp.asarray(tangent, dtype) if is_inexact else zero_tangent(primal)

    return jax.tree.map(leaf, tangent, primal)


def _check_same_shape(name: str, f: Function, label: str, tangent: PyTree, primal: PyTree) -> None:
    if jax.tree.structure(tangent) != jax.tree.structure(primal):
        raise TypeError(
            f"{describe_derived_function(name, f)}: {label} has the structure "
            f"{describe_structure(jax.tree.structure(tangent))}; it must be "
            f"{describe_structure(jax.tree.structure(primal))}."
        )
    for one, other in zip(jax.tree.leaves(tangent), jax.tree.leaves(primal), strict=True):
        if jnp.shape(one) != jnp.shape(other):
            raise TypeError(
                f"{describe_derived_function(name, f)}: {label} has the shape {jnp.shape(one)}; "
                f"it must be {jnp.shape(other)}."
            )
        dtype = jnp.result_type(other)
        # A Python number takes the type of what it stands for.
        if jnp.issubdtype(dtype, jnp.inexact) and jnp.result_type(one, other) != dtype:
            raise TypeError(
                f"{describe_derived_function(name, f)}: {label} is {jnp.result_type(one)}; it "
                f"must be {dtype}."
            )
