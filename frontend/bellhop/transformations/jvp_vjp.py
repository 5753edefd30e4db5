"""jvp and vjp of hybrid functions."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from bellhop.arguments.structure_difference import describe_structures
from bellhop.base.public_function import public_function
from bellhop.base.source import describe_derived_function
from bellhop.base.types import PyTree
from bellhop.callbacks.linear_map import zero_tangent
from bellhop.control_flow.while_loop_vjp import enable_while_transpose
from bellhop.transformations.finite_differences import check_method, with_finite_differences
from bellhop.transformations.grad import Argnums, Function, check_arguments
from bellhop.transformations.inline_trace import trace_inline


@public_function(jax_function=jax.jvp)
def jvp(
    f: Function,
    params: Sequence[Any],
    tangents: Sequence[Any],
    *,
    method: str | None = None,
    h: float | None = None,
    argnums: Argnums | None = None,
) -> tuple[Any, Any]:
    """Return the value of a function and its derivative along tangents.

    The interface is the same as in PennyLane and Catalyst.

    Args:
        f: the function, whose result may be any pytree of arrays.
        params: sequence of all positional arguments of ``f``.
        tangents: sequence of tangents, one for each differentiated argument, with its structure and
            shapes, and dtypes that JAX promotes to its dtypes.
        method: ``"auto"`` or None for JAX's derivatives, ``"fd"`` for finite differences; see
            ``grad``.
        h: step of the finite differences; None for the default.
        argnums: positions of the arguments to differentiate; None for the first.

    Returns:
        the value, and the derivative with the same structure.

    Raises:
        TypeError: if the tangents do not match the arguments, or ``f`` is not callable.
        DifferentiableCompileError: for integer arguments, and for callbacks or measurements without
            a derivative in forward mode.
        ValueError: for an unknown method, an invalid step, or a position in ``argnums`` without an
            argument.

    Example:
        >>> import bellhop
        >>> value, tangent = bellhop.qjit(lambda x: bellhop.jvp(lambda y: y**3, [x], [1.0]))(2.0)
        >>> float(value), float(tangent)
        (8.0, 12.0)
    """
    positions = _resolve_positions("jvp", f, params, argnums)
    check_method("jvp", method, h)
    if not isinstance(tangents, Sequence) or len(tangents) != len(positions):
        raise TypeError(
            f"{describe_derived_function('jvp', f)}: expected a sequence of {len(positions)} "
            f"tangents, one for each differentiated argument (argnums), got {tangents!r}."
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


@public_function(jax_function=jax.vjp)
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

    The interface is the same as in PennyLane and Catalyst.

    Args:
        f: the function, whose result may be any pytree of arrays.
        params: sequence of all positional arguments of ``f``.
        cotangents: pytree with as many leaves as the result, in the same order; its structure may
            differ.
        method: ``"auto"`` or None for JAX's derivatives, ``"fd"`` for finite differences; see
            ``grad``.
        h: step of the finite differences; None for the default.
        argnums: positions of the arguments to differentiate; None for the first.

    Returns:
        the value, and the derivative with respect to the differentiated argument, by default the
        first; a tuple if ``argnums`` is a sequence.

    Raises:
        TypeError: if the cotangents do not match the result, or ``f`` is not callable.
        DifferentiableCompileError: see ``grad``; results may have any shape and dtype.
        ValueError: for an unknown method, an invalid step, or a position in ``argnums`` without an
            argument.

    Example:
        >>> import bellhop
        >>> f = bellhop.qjit(lambda x: bellhop.vjp(lambda y: y**3, [x], [2.0]))
        >>> value, cotangent = f(2.0)
        >>> float(value), float(cotangent)
        (8.0, 24.0)
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
    """Check the arguments of ``jvp`` or ``vjp``; return the differentiated positions.

    Args:
        name: ``"jvp"`` or ``"vjp"``, for errors.
        f: the user's function.
        params: all positional arguments of `f`.
        argnums: position or positions of the arguments to differentiate; None for the first.

    Raises:
        TypeError: if `f` is not callable or `params` is not a sequence.
        DifferentiableCompileError: for arguments that are not float or complex.
        ValueError: for a position without an argument.
    """
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
    """Return `f` as a function of the differentiated arguments only, and their values.

    Args:
        f: the user's function.
        params: all positional arguments of `f`.
        positions: indices of the differentiated arguments in `params`.

    Returns:
        the function, which passes all other arguments of `params` unchanged; and the values of the
        differentiated arguments, pytrees of arrays.
    """

    def function(*primals: Any) -> Any:
        """Call `f` with these values of the differentiated arguments."""
        args = list(params)
        for position, primal in zip(positions, primals, strict=True):
            args[position] = primal
        return trace_inline(f)(*args)

    return function, [jax.tree.map(jnp.asarray, params[position]) for position in positions]


def _check_cotangents(f: Function, cotangents: PyTree, value: object) -> Any:
    """Convert cotangents to the structure and dtypes of a function's result.

    Cotangents of integer leaves become ``float0`` zeros.

    Args:
        f: the user's function, for errors.
        cotangents: pytree with one leaf for each leaf of `value`.
        value: the result of `f`, a pytree.

    Raises:
        TypeError: if the number of leaves or a shape differs, or JAX does not promote a cotangent's
            dtype to the dtype of its leaf.
    """
    leaves, tree = jax.tree.flatten(value)
    given = jax.tree.leaves(cotangents)
    if len(given) != len(leaves):
        raise TypeError(
            f"{describe_derived_function('vjp', f)}: expected {len(leaves)} cotangents, one for "
            f"each array of the result, got {len(given)}."
        )
    for index, (cotangent, leaf) in enumerate(zip(given, leaves, strict=True)):
        _check_same_shape("vjp", f, f"the cotangent of result {index}", cotangent, leaf)
    return jax.tree.unflatten(
        tree, [_cast_tangent(ct, v) for ct, v in zip(given, leaves, strict=True)]
    )


def _inner_product(value: object, cotangents: PyTree) -> Any:
    """Return the sum of the elementwise products of two pytrees, a scalar.

    The products are not conjugated. Integer leaves, whose cotangents are ``float0``, are skipped.

    Args:
        value: a pytree of arrays.
        cotangents: pytree with one cotangent for each leaf of `value`.
    """
    return sum(
        jnp.sum(cotangent * leaf)
        for cotangent, leaf in zip(jax.tree.leaves(cotangents), jax.tree.leaves(value), strict=True)
        if cotangent.dtype != jax.dtypes.float0
    )


def _cast_tangent(tangent: PyTree, primal: PyTree) -> Any:
    """Cast a tangent pytree to its primal's dtypes; integers get ``float0`` zeros."""

    def leaf(tangent: PyTree, primal: PyTree) -> Any:
        """Cast one leaf of the tangent; ``float0`` zeros if the primal is an integer."""
        dtype = jnp.result_type(primal)
        is_inexact = jnp.issubdtype(dtype, jnp.inexact)
        return jnp.asarray(tangent, dtype) if is_inexact else zero_tangent(primal)

    return jax.tree.map(leaf, tangent, primal)


def _check_same_shape(name: str, f: Function, label: str, tangent: PyTree, primal: PyTree) -> None:
    """Check that a tangent or cotangent has its primal's structure, shapes and dtypes.

    A dtype is accepted if JAX promotes it to the primal's dtype, such as float32 to float64, or a
    Python float to float32. For integer leaves of the primal, dtypes are not compared.

    Args:
        name: ``"jvp"`` or ``"vjp"``, for errors.
        f: the user's function, for errors.
        label: description of the tangent, for errors.
        tangent: pytree of tangents or cotangents.
        primal: pytree of an argument, or of a result for a cotangent.

    Raises:
        TypeError: naming the first difference.
    """
    if jax.tree.structure(tangent) != jax.tree.structure(primal):
        given, expected = describe_structures(
            jax.tree.structure(tangent), jax.tree.structure(primal)
        )
        raise TypeError(
            f"{describe_derived_function(name, f)}: {label} has the structure {given}, expected "
            f"{expected}."
        )
    for tangent_leaf, primal_leaf in zip(
        jax.tree.leaves(tangent), jax.tree.leaves(primal), strict=True
    ):
        if jnp.shape(tangent_leaf) != jnp.shape(primal_leaf):
            raise TypeError(
                f"{describe_derived_function(name, f)}: {label} has the shape "
                f"{jnp.shape(tangent_leaf)}, expected {jnp.shape(primal_leaf)}."
            )
        dtype = jnp.result_type(primal_leaf)
        # A Python number adopts the primal's dtype.
        if (
            jnp.issubdtype(dtype, jnp.inexact)
            and jnp.result_type(tangent_leaf, primal_leaf) != dtype
        ):
            raise TypeError(
                f"{describe_derived_function(name, f)}: {label} has the dtype "
                f"{jnp.result_type(tangent_leaf)}, expected {dtype}."
            )
