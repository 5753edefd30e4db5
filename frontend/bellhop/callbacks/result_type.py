"""What a callback returns, from an annotation, a type, an example or a pytree of them."""

import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray

from bellhop._source import definition_site, function_name

MISSING = inspect.Signature.empty

_PYTHON_SCALARS = (bool, int, float, complex)


class ResultTypeError(TypeError):
    """A declared result type says too little, or nothing."""


def annotated_result_type(function: Callable[..., Any]) -> Any:
    """Return the return annotation of a function, or ``MISSING``."""
    try:
        signature = inspect.signature(function, eval_str=True)
    except (ValueError, TypeError, NameError):
        return MISSING
    return signature.return_annotation


def result_avals(
    function: Callable[..., Any], declared: Any
) -> tuple[tuple[ShapedArray, ...], Any]:
    """Return the abstract values of the result leaves and the tree that they form.

    Args:
        function: the callback, which errors name.
        declared: a Python scalar type, a dtype, anything with a shape and a dtype, or a
            pytree of these; ``tuple[float, int]`` is such a pytree as well.

    Raises:
        ResultTypeError: where nothing is declared, or a leaf does not say shape and dtype.
    """
    where = f"callback '{function_name(function)}' ({definition_site(function)})"
    if declared is MISSING:
        raise ResultTypeError(
            f"{where} declares no result type. Annotate it, `def "
            f"{function_name(function)}(...) -> float:`, or pass one: "
            f"pure_callback({function_name(function)}, jax.ShapeDtypeStruct(shape, dtype))."
        )
    leaves, tree = jax.tree.flatten(_unpack_generics(declared))
    return tuple(_leaf_aval(leaf, where) for leaf in leaves), tree


def _unpack_generics(declared: Any) -> Any:
    origin = typing.get_origin(declared)
    if origin is tuple and Ellipsis not in typing.get_args(declared):
        return tuple(_unpack_generics(item) for item in typing.get_args(declared))
    if isinstance(declared, tuple) and type(declared) is tuple:
        return tuple(_unpack_generics(item) for item in declared)
    if isinstance(declared, list):
        return [_unpack_generics(item) for item in declared]
    if isinstance(declared, dict):
        return {key: _unpack_generics(item) for key, item in declared.items()}
    return declared


def _leaf_aval(leaf: Any, where: str) -> ShapedArray:
    canonical = jax.dtypes.canonicalize_dtype
    if isinstance(leaf, np.dtype):
        return ShapedArray((), canonical(leaf))
    if isinstance(leaf, type):
        if leaf in _PYTHON_SCALARS or issubclass(leaf, np.generic):
            try:
                return ShapedArray((), canonical(np.dtype(leaf)))
            except TypeError:
                pass
    elif isinstance(leaf, bool | int | float | complex):
        return ShapedArray((), canonical(np.result_type(leaf)))
    elif hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        try:
            return ShapedArray(tuple(leaf.shape), canonical(leaf.dtype))
        except TypeError:
            pass
    if isinstance(leaf, type | types.GenericAlias) and (
        leaf in (np.ndarray, jax.Array) or typing.get_origin(leaf) is np.ndarray
    ):
        raise ResultTypeError(
            f"{where} declares that it returns {leaf}, which says nothing of shape and dtype. "
            "Declare jax.ShapeDtypeStruct(shape, dtype), or an example array."
        )
    raise ResultTypeError(
        f"{where} declares the result type {leaf!r}, which is not a type of arrays. Declare a "
        "Python scalar type, a dtype, jax.ShapeDtypeStruct(shape, dtype), an example array, or "
        "a pytree of these."
    )
