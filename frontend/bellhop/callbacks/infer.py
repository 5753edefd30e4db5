"""`result_type=infer`: find a pure callback's result type by a call with zeros.

    pure_callback(f, infer)(x)   with x: f64[3]   calls   f(np.zeros(3))   while it is traced

Result types are cached for each function and signature.
"""

import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from bellhop.arguments.declared_types import array_type
from bellhop.base.exception_attributes import add_note
from bellhop.base.source import function_name, user_site
from bellhop.base.types import Aval, PyTree
from bellhop.base.value_checks import flatten_sortable
from bellhop.callbacks.callback_type import Results
from bellhop.compiler.callback_target import describe_value, flatten_arguments
from bellhop.compiler.gates_in_callbacks import current_circuit_name, forbid_gates
from bellhop.errors import ResultTypeError
from bellhop.tracing.state import suspend_tracing
from bellhop_runtime import DTYPES

# By function. Methods are cached by instance: each attribute access makes a new method object.
_known: weakref.WeakKeyDictionary[Any, dict[Any, Results]] = weakref.WeakKeyDictionary()


def infer_results(
    callback_name: str,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    cache: dict[Any, Results],
) -> Results:
    """Infer the result types of a function for the types of its arguments.

    The function is called with zeros if its result types are not cached yet.

    Args:
        callback_name: name of the public function, for errors.
        function: the user's function; it is called outside of the current trace.
        args: positional arguments, traced or concrete pytrees.
        kwargs: keyword arguments, traced or concrete pytrees.
        cache: used instead of the global cache if the function cannot be weakly referenced.

    Returns:
        types of the result's leaves, and its ``PyTreeDef``.

    Raises:
        ResultTypeError: if a result is not an array or number, or is empty for nonempty arguments.
        TypeError: if an argument is not an array.
        Exception: of the function when it is called with zeros, with a note about the call.
    """
    leaves, tree = flatten_arguments(callback_name, function, args, kwargs)
    avals = tuple(jax.typeof(leaf) for leaf in leaves)
    owner: Any = function
    method: Any = None
    if isinstance(function, types.MethodType):
        owner, method = function.__self__, function.__func__
    try:
        known = _known.setdefault(owner, {})
    except TypeError:
        known = cache
    key = (
        method,
        tree,
        tuple((aval.shape, aval.dtype) for aval in avals),
        jax.config.jax_enable_x64,
    )
    if key not in known:
        known[key] = _call_with_zeros(callback_name, function, avals, tree)
    return known[key]


def _call_with_zeros(
    callback_name: str, function: Callable[..., Any], avals: Sequence[Any], tree: PyTree
) -> Results:
    """Call a function with zeros; return the types and structure of its result.

    Args:
        callback_name: name of the public function, for errors.
        function: the user's function.
        avals: types of the argument leaves.
        tree: tree structure of ``(args, kwargs)``.

    Raises:
        ResultTypeError: if a result is not an array or number, or is empty for nonempty arguments.
        TypeError: if the result contains a dictionary whose keys cannot be sorted.
        Exception: of the function, with a note that it was called with zeros.
    """
    types_of_arguments = ", ".join(map(describe_value, avals))
    called = (
        f"{callback_name} '{function_name(function)}' (called from {user_site()}) has "
        f"result_type=bellhop.infer, and was called with zeros ({types_of_arguments}) while the "
        "program was traced"
    )
    quiet = forbid_gates(function, current_circuit_name())
    with suspend_tracing():
        args, kwargs = jax.tree.unflatten(tree, map(make_zeros, avals))
        try:
            result = quiet(*args, **kwargs)
        except Exception as error:
            add_note(
                error,
                f"{called}. Declare the result type, such as result_type=float, if the function "
                "cannot take zeros.",
            )
            raise
        leaves, out_tree = flatten_sortable(f"{called}. The result", result)
        results = tuple(_leaf_type(leaf, called) for leaf in leaves)
    if any(0 in aval.shape for aval in results) and not any(0 in aval.shape for aval in avals):
        raise ResultTypeError(
            f"{called}. It returned an empty array ({', '.join(map(describe_value, results))}), "
            "so the size of the result may depend on values. Declare a result type of one shape "
            "for all values."
        )
    return results, out_tree


def make_zeros(aval: Aval) -> np.ndarray:
    """Return read-only zeros of the type that an argument has in the callback.

    For a random key, these are the words of its key data.

    Args:
        aval: the argument's abstract value in the program.
    """
    if jax.dtypes.issubdtype(aval.dtype, jax.dtypes.extended):
        # Callbacks get the words of a random key.
        aval = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct(aval.shape, aval.dtype))
    zeros = np.zeros(aval.shape, aval.dtype)
    zeros.flags.writeable = False
    return zeros


def _leaf_type(leaf: object, called: str) -> Any:
    """Return the type that one leaf of a callback's result has in programs.

    For example ``float64[3]`` for ``np.zeros(3)``, or ``float32[3]`` without JAX's 64-bit types.

    Args:
        leaf: value that the function returned.
        called: description of the call, for errors.

    Raises:
        ResultTypeError: if the leaf is not an array or number of a supported dtype.
    """
    array = None if isinstance(leaf, type) else np.asarray(leaf)
    if array is None or array.dtype not in DTYPES:
        raise ResultTypeError(
            f"{called}. It returned {describe_value(leaf)}, expected an array or a number of a "
            "dtype that callbacks support. Return pytrees of arrays and numbers."
        )
    return array_type(called, array.shape, jax.dtypes.canonicalize_dtype(array.dtype))
