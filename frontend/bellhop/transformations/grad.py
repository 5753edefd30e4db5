"""grad, jacobian and value_and_grad of hybrid functions."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, overload

import jax
import jax.numpy as jnp

from bellhop.arguments.accepted_arguments import format_count
from bellhop.arguments.flat_tree import FlatTree, unflatten_deep
from bellhop.arguments.static_arguments import parse_positions
from bellhop.base.public_function import hide_internal_frames, public_function
from bellhop.base.source import describe_derived_function, function_name
from bellhop.base.types import PyTree
from bellhop.base.value_checks import check_no_measurements, flatten_sortable
from bellhop.control_flow.while_loop_vjp import enable_while_transpose
from bellhop.errors import DifferentiableCompileError
from bellhop.transformations.finite_differences import check_method, with_finite_differences
from bellhop.transformations.inline_trace import trace_inline

Argnums = int | Sequence[int]
Function = Callable[..., Any]
P = ParamSpec("P")
R = TypeVar("R")


@overload
def grad(
    fn: Callable[P, Any],
    *,
    method: str | None = None,
    h: float | None = None,
    argnums: Argnums | None = None,
) -> Callable[P, Any]: ...
@overload
def grad(
    fn: None = None,
    *,
    method: str | None = None,
    h: float | None = None,
    argnums: Argnums | None = None,
) -> Callable[[Callable[P, Any]], Callable[P, Any]]: ...
@public_function(jax_function=jax.grad)
def grad(
    fn: Function | None = None,
    *,
    method: str | None = None,
    h: float | None = None,
    argnums: Argnums | None = None,
) -> Any:
    """Return a function that computes the gradient of a scalar function.

    Circuits are differentiated by their ``diff_method``, callbacks by their registered rules, and
    everything else by JAX in reverse mode, including loops with a dynamic trip count, whose values
    are recomputed.

    Args:
        fn: the function; a QNode, a qjit function or a Python function that calls these.
        method: ``"auto"`` (or None), as above; ``"fd"``, forward finite differences of ``fn``,
            which need no derivative of its parts.
        h: step of the finite differences. By default it depends on the lower precision of argument
            and result: 1e-7 for 64 bits, 5e-4 for 32 bits, and the square root of the machine
            epsilon for fewer.
        argnums: positions of the arguments to differentiate, which must be float or complex arrays.
            By default the first.

    Returns:
        a function with the arguments of ``fn`` that returns the derivative, in the structure of the
        argument; a tuple if ``argnums`` is a sequence. If ``fn`` returns the scalar in a container
        such as a list, the derivative is in the same container. Without ``fn``, a decorator.

    Raises:
        DifferentiableCompileError: at the call, for integer arguments, a result that is not a real
            floating-point scalar, callbacks or measurements without derivative, and results of
            calls with side effects in a loop with a dynamic trip count.
        ValueError: for an unknown method or an invalid step; at the call, for a position in
            ``argnums`` without an argument.
        TypeError: if ``fn`` is not callable.

    Example:
        >>> import bellhop
        >>> bellhop.qjit(bellhop.grad(lambda x: x**3))(2.0)
        Array(12., dtype=float64, weak_type=True)
    """
    return _derivative("grad", fn, method=method, h=h, argnums=argnums)


@overload
def value_and_grad(
    fn: Callable[P, R],
    *,
    method: str | None = None,
    h: float | None = None,
    argnums: Argnums | None = None,
) -> Callable[P, tuple[R, Any]]: ...
@overload
def value_and_grad(
    fn: None = None,
    *,
    method: str | None = None,
    h: float | None = None,
    argnums: Argnums | None = None,
) -> Callable[[Callable[P, R]], Callable[P, tuple[R, Any]]]: ...
@public_function(jax_function=jax.value_and_grad)
def value_and_grad(
    fn: Function | None = None,
    *,
    method: str | None = None,
    h: float | None = None,
    argnums: Argnums | None = None,
) -> Any:
    """Return a function that computes a function's value and gradient together.

    Args:
        fn: the function, with a scalar result; a QNode, a qjit function or a Python function.
        method: ``"auto"`` or None for the derivatives of its parts, ``"fd"`` for finite differences
            of ``fn``; see ``grad``.
        h: step of the finite differences; None for the default.
        argnums: positions of the arguments to differentiate; by default the first.

    Returns:
        a function with the arguments of ``fn`` that returns a pair: the value of ``fn``, and its
        derivative as from ``grad``. Without ``fn``, a decorator.

    Raises:
        DifferentiableCompileError: see ``grad``.
        ValueError: for an unknown method or an invalid step.
        TypeError: if ``fn`` is not callable.

    Example:
        >>> import bellhop
        >>> value, slope = bellhop.qjit(bellhop.value_and_grad(lambda x: x**3))(2.0)
        >>> float(value), float(slope)
        (8.0, 12.0)
    """
    return _derivative("value_and_grad", fn, method=method, h=h, argnums=argnums)


@overload
def jacobian(
    fn: Callable[P, Any],
    *,
    method: str | None = None,
    h: float | None = None,
    argnums: Argnums | None = None,
) -> Callable[P, Any]: ...
@overload
def jacobian(
    fn: None = None,
    *,
    method: str | None = None,
    h: float | None = None,
    argnums: Argnums | None = None,
) -> Callable[[Callable[P, Any]], Callable[P, Any]]: ...
@public_function(jax_function=jax.jacrev)
def jacobian(
    fn: Function | None = None,
    *,
    method: str | None = None,
    h: float | None = None,
    argnums: Argnums | None = None,
) -> Any:
    """Return a function that computes the Jacobian of a function.

    Args:
        fn: the function, whose result may be a pytree of real arrays; a QNode, a qjit function or a
            Python function.
        method: ``"auto"`` or None for the derivatives of its parts, ``"fd"`` for finite differences
            of ``fn``; see ``grad``.
        h: step of the finite differences; None for the default.
        argnums: positions of the arguments to differentiate; by default the first.

    Returns:
        a function with the arguments of ``fn`` that returns the Jacobian in the structure of the
        result, and in each leaf of the result in the structure of the argument, or a tuple if
        ``argnums`` is a sequence. Each leaf has the shape of the result leaf followed by the shape
        of the argument leaf. Without ``fn``, a decorator.

    Raises:
        DifferentiableCompileError: see ``grad``; results may have any shape.
        ValueError: for an unknown method or an invalid step.
        TypeError: if ``fn`` is not callable.

    Example:
        >>> import bellhop, jax.numpy as jnp
        >>> bellhop.qjit(bellhop.jacobian(lambda x: x ** 2))(jnp.array([1.0, 2.0]))
        Array([[2., 0.],
               [0., 4.]], dtype=float64)
    """
    return _derivative("jacobian", fn, method=method, h=h, argnums=argnums)


_TRANSFORMS: dict[str, Function] = {
    "grad": jax.grad,
    "value_and_grad": jax.value_and_grad,
    "jacobian": jax.jacrev,
}


def _derivative(
    name: str, fn: Function | None, *, method: str | None, h: float | None, argnums: Argnums | None
) -> Function:
    """Implement ``grad``, ``value_and_grad`` and ``jacobian``.

    Args:
        name: name of the public function to implement.
        fn: the user's function, or None to return a decorator.
        method: the public function's option.
        h: the public function's option.
        argnums: the public function's option.

    Returns:
        the derivative as a function, or a decorator.

    Raises:
        TypeError: if `fn` is not callable.
        ValueError: for an unknown method or an invalid step.
    """
    if fn is None:
        return functools.partial(_derivative, name, method=method, h=h, argnums=argnums)
    if not callable(fn):
        raise TypeError(f"{name} takes a function, got {fn!r} of type {type(fn).__name__}.")
    check_method(name, method, h)
    differentiated = 0 if argnums is None else argnums
    scalar = name != "jacobian"

    @functools.wraps(fn)
    @hide_internal_frames
    def derivative(*args: Any, **kwargs: Any) -> Any:
        """Compute the derivative of `fn` at its arguments: the result of ``grad`` etc.

        Keyword arguments are not differentiated.

        Raises:
            DifferentiableCompileError: if an argument or the result cannot be differentiated.
        """
        check_arguments(name, fn, differentiated, args)

        tree: Any = None

        def flat_function(*args: FlatTree) -> Any:
            """Call the user's function with unflattened arguments, and check its result.

            Returns:
                for ``jacobian``, the result as a ``FlatTree``, a pytree with array leaves.
                Otherwise the scalar result; the structure of a container around it is stored in
                `tree`.
            """
            nonlocal tree
            result = trace_inline(fn)(*(arg.unflatten() for arg in args), **kwargs)
            _check_result(name, fn, result, scalar=scalar)
            if not scalar:
                return FlatTree.flatten(result)
            # The scalar may be in a container, which the derivative then has as well.
            (leaf,), tree = jax.tree.flatten(result)
            return leaf

        # Flattened, since JAX builds Jacobians in structures with None.
        args = tuple(map(FlatTree.flatten, args))
        if method == "fd":
            derived = _forward(
                name, with_finite_differences(flat_function, h), differentiated, args
            )
        else:
            with enable_while_transpose(describe_derived_function(name, fn)):
                derived = _TRANSFORMS[name](flat_function, argnums=differentiated)(*args)
        derived = unflatten_deep(derived)
        if not scalar:
            return derived
        if name == "value_and_grad":
            return tuple(jax.tree.unflatten(tree, [part]) for part in derived)
        return jax.tree.unflatten(tree, [derived])

    derivative.__name__ = f"{name}_{function_name(fn)}"
    return derivative


def _forward(name: str, fn: Function, argnums: Argnums, args: Sequence[Any]) -> Any:
    """Compute the Jacobian of `fn` at `args` by forward mode, with ``jax.jacfwd``.

    Args:
        name: the public function that is implemented, such as ``"grad"``.
        fn: a function with finite differences as derivative.
        argnums: position or positions of the arguments to differentiate.
        args: all arguments of `fn`.

    Returns:
        the Jacobian; the pair of value and Jacobian if `name` is ``"value_and_grad"``.
    """
    slope = jax.jacfwd(fn, argnums=argnums)(*args)
    return (fn(*args), slope) if name == "value_and_grad" else slope


def check_arguments(name: str, fn: Function, argnums: Argnums, args: Sequence[Any]) -> None:
    """Check that the arguments to differentiate exist, and are float or complex.

    Args:
        name: the public function, such as ``grad``, for errors.
        fn: the user's function, for errors.
        argnums: position or positions of the arguments to differentiate.
        args: all positional arguments of `fn`, pytrees.

    Raises:
        DifferentiableCompileError: for arguments that are not float or complex.
        ValueError: for a position without an argument.
        TypeError: if `argnums` is not an integer or a sequence of integers.
    """
    for argnum in parse_positions("argnums", argnums, name):
        if not -len(args) <= argnum < len(args):
            raise ValueError(
                f"{describe_derived_function(name, fn)} differentiates argument {argnum}, but it "
                f"is called with {format_count(len(args), 'positional argument')}. Pass the "
                "argument by position, or choose another with argnums, which counts from 0."
            )
        named = f"{describe_derived_function(name, fn)}: argument {argnum}"
        for leaf in flatten_sortable(named, args[argnum])[0]:
            if not _is_inexact(leaf):
                raise DifferentiableCompileError(
                    f"{describe_derived_function(name, fn)}: argument {argnum} is of type "
                    f"{_type_name(leaf)}, which "
                    "has no derivative. Pass floats (1.0, not 1), or choose other arguments with "
                    "argnums."
                )


def _is_inexact(leaf: object) -> bool:
    """Return whether a leaf is a number or array of a floating-point or complex dtype."""
    return _is_number(leaf) and jnp.issubdtype(jnp.result_type(leaf), jnp.inexact)


def _is_number(leaf: object) -> bool:
    """Return whether a leaf is a Python number or has a dtype, as arrays and tracers."""
    return isinstance(leaf, bool | int | float | complex) or hasattr(leaf, "dtype")


def _type_name(leaf: object) -> str:
    """Return a leaf's dtype for an error, or its Python type if it is not a number."""
    return str(jnp.result_type(leaf)) if _is_number(leaf) else type(leaf).__name__


def _check_result(name: str, fn: Function, result: PyTree, *, scalar: bool) -> None:
    """Check that the result of a function can be differentiated.

    Args:
        name: the public function, such as ``grad``, for errors.
        fn: the user's function, for errors.
        result: its result, a pytree.
        scalar: whether the result must be one scalar, possibly in a container.

    Raises:
        DifferentiableCompileError: if the result is not real floating-point, or `scalar` is set and
            it is not one scalar, possibly in a container.
        CompileError: if the result contains a PennyLane measurement.
    """
    check_no_measurements(describe_derived_function(name, fn), result)
    leaves = jax.tree.leaves(result)
    if scalar and (len(leaves) != 1 or jnp.shape(leaves[0]) != ()):
        shapes = [jnp.shape(leaf) for leaf in leaves]
        raise DifferentiableCompileError(
            f"{describe_derived_function(name, fn)}: the result must be one scalar, got "
            f"the shapes {shapes}. Use jacobian for other results."
        )
    for leaf in leaves:
        if not _is_inexact(leaf):
            raise DifferentiableCompileError(
                f"{describe_derived_function(name, fn)}: the result is of type "
                f"{_type_name(leaf)}, which has no "
                "derivative. Return floats."
            )
        if jnp.issubdtype(jnp.result_type(leaf), jnp.complexfloating):
            raise DifferentiableCompileError(
                f"{describe_derived_function(name, fn)}: the result is of type "
                f"{_type_name(leaf)}, expected a real "
                "type. Use jnp.real or jnp.abs."
            )
