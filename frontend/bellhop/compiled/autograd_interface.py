"""qjit functions of PennyLane autograd tensors, with derivatives.

PennyLane's optimizers pass such tensors, and differentiate by wrapping them in boxes.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from autograd.extend import defvjp_argnums, primitive  # type: ignore[import-untyped]
from autograd.numpy.numpy_boxes import ArrayBox  # type: ignore[import-untyped]
from autograd.tracer import Box
from jax.tree_util import PyTreeDef
from pennylane.numpy import tensor

from bellhop.arguments.static_arguments import NO_STATIC
from bellhop.base.source import function_name
from bellhop.base.types import Args, Kwargs, Operand, PyTree
from bellhop.compiled.flat_function import FlatFunction
from bellhop.transformations.inline_trace import trace_inline

# The types of PennyLane tensors and of autograd's boxes.
AUTOGRAD_TYPES: tuple[type[Any], ...] = tensor, ArrayBox


def is_from_autograd(args: Args, kwargs: Kwargs) -> bool:
    """Return whether a call has PennyLane tensors or autograd's boxes as arguments.

    If so, `call_from_autograd` must make the call. Tensors count as positional arguments only:
    inside of containers and in keyword arguments, JAX takes them as NumPy arrays. Boxes, the
    tracers of autograd, count anywhere.
    """
    return any(type(arg) is tensor for arg in args) or _has_box(args, kwargs)


def _has_box(args: Args, kwargs: Kwargs) -> bool:
    """Return whether a leaf of the arguments is an ``ArrayBox``, autograd's tracer of an array.

    Boxes of lists, tuples and dictionaries do not count.
    """
    try:
        leaves = jax.tree.leaves((args, kwargs), is_leaf=lambda value: isinstance(value, Box))
    except Exception:
        # JAX's classes differ by version. The call raises an error that names the argument.
        return False
    return any(type(leaf) is ArrayBox for leaf in leaves)


def call_from_autograd(function: Any, args: Args, kwargs: Kwargs) -> Any:
    """Call a qjit function with PennyLane tensors or autograd's boxes.

    Args:
        function: the `QJIT` object.
        args: positional arguments, pytrees.
        kwargs: keyword arguments, pytrees. Some positional argument is a PennyLane tensor, or some
            leaf of all arguments is an autograd box.

    Returns:
        the result of the function, a pytree. Its leaves are boxes if any leaf is a box, so that
        autograd differentiates the call; tensors if a positional argument is a tensor with
        ``requires_grad``; else JAX arrays.
    """
    if _has_box(args, kwargs):
        return _call_boxed(function, args, kwargs)
    arrays = (np.asarray(arg) if type(arg) is tensor else arg for arg in args)
    result = function(*arrays, **kwargs)
    if any(type(arg) is tensor and arg.requires_grad for arg in args):
        return jax.tree.map(_to_tensor, result)
    return result


def _call_boxed(function: Any, args: Any, kwargs: Any) -> Any:
    """Call a qjit function that autograd differentiates, as one autograd primitive.

    Autograd records the call, and differentiates it by the function's VJP.

    Args:
        function: the `QJIT` object.
        args: positional arguments.
        kwargs: keyword arguments. At least one leaf of all arguments is an ``ArrayBox``.

    Returns:
        the pytree of the result, with boxes as leaves.
    """
    static = NO_STATIC
    if function.static_arguments:
        static, args, kwargs = function.static_arguments.split(args, kwargs)
    leaves, in_tree = jax.tree.flatten((args, kwargs))
    flat_function = _flatten_function(function, static, in_tree)
    results = _call(flat_function, *leaves)
    tree = flat_function.latest.tree
    return jax.tree.unflatten(tree, [results[i] for i in range(tree.num_leaves)])


def _flatten_function(function: Any, static: Any, in_tree: PyTreeDef) -> FlatFunction:
    """Return a `QJIT` as a `FlatFunction` of dynamic leaves, cached on the `QJIT`.

    ``in_tree`` is the structure of ``(args, kwargs)`` of the dynamic arguments.
    """
    # Cached on the function, so that both are freed together.
    known = function.__dict__.setdefault("_in_autograd", {})
    if (static, in_tree) not in known:
        traceable = trace_inline(function.user_function)

        def flat(*leaves: Operand) -> Any:
            """Call the user's function with arguments rebuilt from their leaves."""
            args, kwargs = static.merge(*jax.tree.unflatten(in_tree, leaves))
            return traceable(*args, **kwargs)

        name = function_name(function.original_function)
        known[static, in_tree] = FlatFunction(flat, name, type(function))
    return known[static, in_tree]


def _to_tensor(array: Operand) -> Any:
    """Convert an array to a PennyLane tensor, which requires a gradient if its dtype is inexact."""
    value = np.array(array)
    return tensor(value, requires_grad=_is_inexact(value))


def _is_inexact(array: Operand) -> bool:
    return bool(np.issubdtype(array.dtype, np.inexact))


@primitive  # type: ignore[untyped-decorator]
def _call(function: FlatFunction, *arrays: Operand) -> tuple[Any, ...]:
    """Call a `FlatFunction` on arrays; a primitive that autograd differentiates.

    Args:
        function: the function of flat arrays.
        *arrays: its arguments; autograd passes the values of boxes.

    Returns:
        floating-point and complex results as PennyLane tensors, other results as NumPy arrays.
    """
    results = map(np.array, function([np.asarray(array) for array in arrays]))
    # Tensors without derivative cannot be in a box, so integer results stay NumPy arrays.
    return tuple(_to_tensor(result) if _is_inexact(result) else result for result in results)


def _make_vjp(argnums: Sequence[int], results: Any, args: Args, kwargs: Kwargs) -> Any:
    """Return the pullback of `_call`, as autograd's ``defvjp_argnums`` requires.

    Args:
        argnums: positions of the differentiated arguments of `_call`, from 1: position 0 is the
            `FlatFunction`.
        results: tuple of the results of `_call`.
        args: all arguments of `_call`: the `FlatFunction`, then arrays.
        kwargs: unused.

    Returns:
        a function from one cotangent for each result to one cotangent for each of `argnums`.
    """
    function, *arrays = args
    active = tuple(position in argnums for position in range(1, len(args)))
    order = sorted(argnums)

    def pull(cotangents: PyTree) -> tuple[Any, ...]:
        """Return the cotangent of each differentiated argument, in the order of `argnums`."""
        inexact = [cotangents[i] for i in range(len(results)) if _is_inexact(results[i])]
        found = _call(function.pullback(active), *arrays, *inexact)
        return tuple(found[order.index(position)] for position in argnums)

    return pull


defvjp_argnums(_call, _make_vjp)
