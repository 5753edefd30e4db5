"""What a callback returns, from an annotation, a type, an example or a pytree of them."""

import functools
import inspect
import math
import operator
import typing
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray
from jax.export import is_symbolic_dim
from jax.typing import DTypeLike

from bellhop.base.source import definition_site, function_name
from bellhop_runtime import DTYPES

MISSING = inspect.Signature.empty

_PYTHON_SCALARS = (bool, int, float, complex)
_DTYPES_BY_TYPE: dict[type, Any] = {type_: np.dtype(type_) for type_ in _PYTHON_SCALARS}
_DTYPES_BY_TYPE |= {dtype.type: dtype for dtype in DTYPES}


class ResultTypeError(TypeError):
    """A declared result type says too little, or nothing."""


class _Infer:
    """Asks ``pure_callback`` to find the result type by a call with zeros."""

    def __repr__(self) -> str:
        return "bellhop.infer"


#: Given to ``pure_callback`` as ``result_type``: the type is that of a call with zeros.
infer = _Infer()


def annotated_result_type(function: Callable[..., Any]) -> Any:
    """Return the return annotation of a function, or ``MISSING``.

    Raises:
        ResultTypeError: where the annotation is a string that means nothing.
    """
    try:
        annotation = inspect.signature(function).return_annotation
    except (ValueError, TypeError):
        return MISSING
    if not isinstance(annotation, str):
        return annotation
    # Only this one: the annotations of the arguments may mean nothing at run time.
    try:
        return eval(annotation, _globals(function))
    except Exception as error:
        raise ResultTypeError(
            f"{_where(function)} declares the result type '{annotation}', which cannot be "
            f"evaluated ({error}). Pass the type: pure_callback(fn, result_type)."
        ) from error


def _globals(function: Callable[..., Any]) -> dict[str, Any]:
    while isinstance(function, functools.partial):
        function = function.func
    if not hasattr(function, "__globals__") and not hasattr(function, "__func__"):
        function = type(function).__call__
    return getattr(inspect.unwrap(function), "__globals__", {})


def _where(function: Callable[..., Any]) -> str:
    return f"callback '{function_name(function)}' ({definition_site(function)})"


def result_avals(
    function: Callable[..., Any], declared: Any, *, narrows: bool = False
) -> tuple[tuple[ShapedArray, ...], Any]:
    """Return the abstract values of the result leaves and the tree that they form.

    Args:
        function: the callback, which errors name.
        declared: a Python scalar type, a dtype, anything with a shape and a dtype, or a
            pytree of these; ``tuple[float, int]``, and a ``typing.NamedTuple`` whose fields have
            such types, are pytrees as well.
        narrows: whether 64-bit types mean 32-bit ones where JAX has them off, and are no error.

    Raises:
        ResultTypeError: where nothing is declared, a leaf does not say shape and dtype, or is of
            a type that JAX has not.
    """
    where = _where(function)
    if declared is MISSING:
        raise ResultTypeError(
            f"{where} declares no result type. Annotate it, `def "
            f"{function_name(function)}(...) -> float:`, or pass one: "
            f"pure_callback({function_name(function)}, jax.ShapeDtypeStruct(shape, dtype))."
        )
    if declared is infer:
        raise ResultTypeError(
            f"{where} has bellhop.infer in the place of its result type, and only pure_callback "
            "infers one: the function is called with zeros for it, while the program is traced, "
            "and others have side effects or write into what they are given. Declare the type."
        )
    if shape := _find_shape(declared):
        raise ResultTypeError(
            f"{where} declares the result type {declared!r}, expected types of arrays, got "
            f"{shape!r}, which is a {type(shape).__name__} of numbers. Declare "
            "jax.ShapeDtypeStruct(shape, dtype) for one array, (float, float) for several numbers."
        )
    leaves, tree = jax.tree.flatten(_unpack_generics(declared))
    return tuple(_leaf_aval(leaf, where, narrows) for leaf in leaves), tree


def _find_shape(declared: Any) -> Any:
    """Return a tuple or list of Python numbers in a pytree, which looks like a shape; or None."""
    is_shape = lambda node: (
        type(node) in (tuple, list) and len(node) > 0 and all(map(_is_number, node))
    )
    return next(filter(is_shape, jax.tree.leaves(declared, is_leaf=is_shape)), None)


def _unpack_generics(declared: Any) -> Any:
    """Return a pytree of what is declared, in which the types of tuples are tuples of types."""
    leaves, tree = jax.tree.flatten(declared)
    unpacked = list(map(_unpack_generic, leaves))
    # Its constructor may take nothing but arrays.
    is_same = all(map(operator.is_, leaves, unpacked))
    return declared if is_same else jax.tree.unflatten(tree, unpacked)


def _unpack_generic(leaf: object) -> Any:
    origin = typing.get_origin(leaf)
    if origin is typing.Annotated:
        return _unpack_generics(typing.get_args(leaf)[0])
    if origin is tuple and Ellipsis not in typing.get_args(leaf):
        return tuple(_unpack_generics(item) for item in typing.get_args(leaf))
    if isinstance(leaf, type) and issubclass(leaf, tuple):
        # Of a typing.NamedTuple, the fields have types.
        names, types = getattr(leaf, "_fields", ()), typing.get_type_hints(leaf)
        if names and types.keys() >= set(names):
            return leaf(*(_unpack_generics(types[name]) for name in names))
    return None if leaf is type(None) else leaf


def _leaf_aval(leaf: Any, where: str, narrows: bool) -> ShapedArray:
    dtype = _dtype(leaf)
    if dtype is not None and dtype in DTYPES:
        # Python's own types are as wide as JAX's are.
        says_width = leaf not in _PYTHON_SCALARS if isinstance(leaf, type) else not _is_number(leaf)
        if says_width and not narrows and jax.dtypes.canonicalize_dtype(dtype) != dtype:
            raise ResultTypeError(
                f"{where} declares a result of type {np.dtype(dtype).name}, and JAX's 64-bit types "
                "are off. Declare a 32-bit type, or a Python scalar type, or turn them on: "
                "jax.config.update('jax_enable_x64', True)."
            )
        shape = () if isinstance(leaf, type | np.dtype) else np.shape(leaf)
        return array_type(where, shape, jax.dtypes.canonicalize_dtype(dtype))
    if any(type_ is np.ndarray or type_ is jax.Array for type_ in (leaf, typing.get_origin(leaf))):
        raise ResultTypeError(
            f"{where} declares that it returns {leaf}, which says nothing of shape and dtype. "
            "Declare jax.ShapeDtypeStruct(shape, dtype), or an example array."
        )
    if isinstance(leaf, jax.Array | jax.ShapeDtypeStruct) and jax.dtypes.issubdtype(
        dtype, jax.dtypes.extended
    ):
        raise ResultTypeError(
            f"{where} declares the result type {leaf!r}, and callbacks return no random keys. "
            "Return the words of the key, as jax.random.key_data gives them, and make a key of "
            "them by jax.random.wrap_key_data."
        )
    raise ResultTypeError(
        f"{where} declares the result type {leaf!r}, which is not a type of arrays. Declare a "
        "Python scalar type, a dtype, jax.ShapeDtypeStruct(shape, dtype), an example array, or "
        "a pytree of these."
    )


def array_type(where: str, shape: Sequence[Any], dtype: DTypeLike) -> ShapedArray:
    """Return the type of an array that is declared, or computed of such.

    The compiler ends the process at an array that it cannot address.

    Args:
        where: the callback and its line.
        shape: of the array.
        dtype: of its numbers.

    Raises:
        ResultTypeError: for a shape that no array has.
    """
    sizes = [size for size in shape if not is_symbolic_dim(size)]
    text = f"{np.dtype(dtype).name}[{','.join(map(str, shape))}]"
    if not all(hasattr(size, "__index__") for size in sizes):
        raise ResultTypeError(
            f"{where} declares the result type {text}, expected sizes that are integers, since "
            "shapes are fixed when the program is compiled. Declare the shape that it returns."
        )
    if any(size < 0 for size in sizes):
        raise ResultTypeError(
            f"{where} declares the result type {text}, and no array has a negative size. Declare "
            "the shape that it returns, which is known when the program is compiled."
        )
    # The compiler multiplies the others even where a size is 0.
    if math.prod(max(int(size), 1) for size in sizes) * np.dtype(dtype).itemsize >= 2**63:
        raise ResultTypeError(
            f"{where} declares the result type {text}, which has more bytes than memory has "
            "addresses. Declare a smaller shape."
        )
    return ShapedArray(tuple(shape), dtype)


def _is_number(leaf: object) -> bool:
    return isinstance(leaf, _PYTHON_SCALARS) and not isinstance(leaf, np.generic)


def _dtype(leaf: Any) -> Any:
    """Return the dtype that a declared leaf means, or None."""
    if isinstance(leaf, np.dtype):
        return leaf
    if isinstance(leaf, type) and leaf in _DTYPES_BY_TYPE:
        return _DTYPES_BY_TYPE[leaf]
    if _is_number(leaf):
        return np.result_type(leaf)
    # Arrays, descriptions of them, and jax.numpy's scalar types.
    return getattr(leaf, "dtype", None)
