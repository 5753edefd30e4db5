"""Declared result types of callbacks: annotations, types, examples and pytrees."""

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
from bellhop.base.value_checks import flatten_sortable
from bellhop.errors import ResultTypeError
from bellhop_runtime import DTYPES

MISSING = inspect.Signature.empty

_PYTHON_SCALARS = (bool, int, float, complex)
_DTYPES_BY_TYPE: dict[type, Any] = {type_: np.dtype(type_) for type_ in _PYTHON_SCALARS}
_DTYPES_BY_TYPE |= {dtype.type: dtype for dtype in DTYPES}


class _Infer:
    """Class of `bellhop.infer`, which requests a result type instead of declaring one.

    ``pure_callback(f, bellhop.infer)`` determines the type by a call of ``f`` with zeros.
    """

    def __repr__(self) -> str:
        return "bellhop.infer"


#: Passed to ``pure_callback`` as ``result_type``: infer the type by a call with zeros.
infer = _Infer()


def annotated_result_type(function: Callable[..., Any]) -> Any:
    """Return the return annotation of a function, such as ``float`` for ``-> float``.

    Args:
        function: any callable; a string annotation is evaluated with its module's global variables.

    Returns:
        the annotation, not converted; ``MISSING`` if there is none, or if `function` has no
        signature.

    Raises:
        ResultTypeError: if a string annotation cannot be evaluated.
    """
    try:
        annotation = inspect.signature(function).return_annotation
    except (ValueError, TypeError):
        return MISSING
    if not isinstance(annotation, str):
        return annotation
    # Evaluate the return annotation only: annotations of arguments may name types that do not exist
    # at run time.
    try:
        return eval(annotation, _globals(function))
    except Exception as error:
        raise ResultTypeError(
            f"{_describe_callback(function)} declares the result type '{annotation}', which cannot "
            f"be evaluated ({error}). Correct the annotation, or pass the type as result_type."
        ) from error


def _globals(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the global variables of the module that defines a callable.

    String annotations of the callable are evaluated with them. Empty for C functions.
    """
    while isinstance(function, functools.partial):
        function = function.func
    if not hasattr(function, "__globals__") and not hasattr(function, "__func__"):
        function = type(function).__call__
    return getattr(inspect.unwrap(function), "__globals__", {})


def _describe_callback(function: Callable[..., Any]) -> str:
    return f"callback '{function_name(function)}' ({definition_site(function)})"


def result_avals(
    function: Callable[..., Any], declared: Any, *, narrows: bool = False
) -> tuple[tuple[ShapedArray, ...], Any]:
    """Convert a declared result type to abstract values and a tree structure.

    For example ``(float, int)`` gives the types float64[] and int64[] and the structure of a pair.

    Args:
        function: the callback, for errors.
        declared: a Python scalar type, a dtype, an example number or array, a ``ShapeDtypeStruct``,
            or a pytree of these; ``tuple[float, int]`` and classes derived from
            ``typing.NamedTuple`` with typed fields count as pytrees.
        narrows: whether 64-bit types are narrowed to 32 bits if JAX's 64-bit types are off;
            otherwise they raise an error. Python scalar types always have JAX's default width.

    Returns:
        the abstract values of the leaves, and the ``PyTreeDef``.

    Raises:
        ResultTypeError: if the type is missing or `infer`, looks like a shape, a leaf lacks shape
            or dtype, or JAX does not support its dtype.
    """
    where = _describe_callback(function)
    if declared is MISSING:
        name = function_name(function)
        # Only a function that is written in Python has annotations.
        is_annotatable = hasattr(inspect.unwrap(function), "__code__")
        advice = (
            f"Annotate the function, `def {name}(...) -> float:`, or pass"
            if is_annotatable
            else "Pass"
        )
        raise ResultTypeError(
            f"{where} declares no result type. {advice} the type as the second argument, such as "
            "jax.ShapeDtypeStruct(shape, dtype)."
        )
    if declared is infer:
        raise ResultTypeError(
            f"{where} has the result type bellhop.infer, supported by pure_callback only: "
            "inference calls the function with zeros while the program is traced, and other "
            "callbacks have side effects or write into their arguments. Declare the type."
        )
    flatten_sortable(f"{where}: the declared result type", declared)
    if shape := _find_shape(declared):
        raise ResultTypeError(
            f"{where} declares the result type {declared!r}, expected types of arrays, got "
            f"{shape!r}, which is a {type(shape).__name__} of numbers. Declare "
            "jax.ShapeDtypeStruct(shape, dtype) for one array, (float, float) for several numbers."
        )
    leaves, tree = jax.tree.flatten(_unpack_generics(declared))
    return tuple(_leaf_aval(leaf, where, narrows) for leaf in leaves), tree


def _find_shape(declared: Any) -> Any:
    """Return the first tuple or list of numbers in a declared result type, or None.

    The user probably meant it as a shape.
    """
    is_shape = lambda node: (
        type(node) in (tuple, list) and len(node) > 0 and all(map(_is_number, node))
    )
    return next(filter(is_shape, jax.tree.leaves(declared, is_leaf=is_shape)), None)


def _unpack_generics(declared: Any) -> Any:
    """Replace types in a pytree: ``tuple[int, float]`` becomes ``(int, float)``.

    Args:
        declared: a declared result type. ``Annotated[...]`` and classes of typed named tuples are
            replaced too.

    Returns:
        the new pytree; `declared` itself if there is nothing to replace.
    """
    leaves, tree = jax.tree.flatten(declared)
    unpacked = list(map(_unpack_generic, leaves))
    # Do not rebuild an unchanged pytree: constructors of registered classes may accept arrays only.
    is_same = all(map(operator.is_, leaves, unpacked))
    return declared if is_same else jax.tree.unflatten(tree, unpacked)


def _unpack_generic(leaf: object) -> Any:
    """Convert a type annotation for several arrays to a pytree of types.

    Args:
        leaf: ``Annotated[...]``, ``tuple[...]``, a class of typed named tuples, or any other type.

    Returns:
        the pytree; None for the type of None, which is a pytree without leaves; `leaf` for all
        other types.
    """
    origin = typing.get_origin(leaf)
    if origin is typing.Annotated:
        return _unpack_generics(typing.get_args(leaf)[0])
    if origin is tuple and Ellipsis not in typing.get_args(leaf):
        return tuple(_unpack_generics(item) for item in typing.get_args(leaf))
    if isinstance(leaf, type) and issubclass(leaf, tuple):
        # Fields of a typing.NamedTuple have types.
        names, types = getattr(leaf, "_fields", ()), typing.get_type_hints(leaf)
        if names and types.keys() >= set(names):
            return leaf(*(_unpack_generics(types[name]) for name in names))
    return None if leaf is type(None) else leaf


def _leaf_aval(leaf: Any, where: str, narrows: bool) -> ShapedArray:
    """Return the abstract value of one leaf of a declared result type.

    Args:
        leaf: a type, a dtype, an array, a number or a `ShapeDtypeStruct`.
        where: the callback and its line, for errors.
        narrows: whether 64-bit types become 32-bit types if JAX's 64-bit types are off; otherwise
            they raise an error.

    Raises:
        ResultTypeError: if `leaf` does not determine shape and dtype, or JAX has no such arrays.
    """
    dtype = _dtype(leaf)
    if dtype is not None and dtype in DTYPES:
        # Python's scalar types mean JAX's default width.
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
            f"{where} declares that it returns {leaf}, which has no shape and dtype. "
            "Declare jax.ShapeDtypeStruct(shape, dtype), or an example array."
        )
    if isinstance(leaf, jax.Array | jax.ShapeDtypeStruct) and jax.dtypes.issubdtype(
        dtype, jax.dtypes.extended
    ):
        raise ResultTypeError(
            f"{where} declares the result type {leaf!r}, and callbacks cannot return random keys. "
            "Return the key data, jax.random.key_data(key), and convert them by "
            "jax.random.wrap_key_data."
        )
    raise ResultTypeError(
        f"{where} declares the result type {leaf!r}, which is not a type of arrays that callbacks "
        "support. Declare a Python scalar type, a dtype, jax.ShapeDtypeStruct(shape, dtype), an "
        "example array, or a pytree of these."
    )


def array_type(where: str, shape: Sequence[Any], dtype: DTypeLike) -> ShapedArray:
    """Build the abstract value for a declared shape and dtype, if the shape is valid.

    XLA aborts the process for arrays that exceed the address space, so this raises an error first.

    Args:
        where: the callback and its line, for errors.
        shape: declared shape; sizes may be symbolic.
        dtype: the array's dtype.

    Raises:
        ResultTypeError: for sizes that are negative, not integers, or too large.
    """
    sizes = [size for size in shape if not is_symbolic_dim(size)]
    text = f"{np.dtype(dtype).name}[{','.join(map(str, shape))}]"
    if not all(hasattr(size, "__index__") for size in sizes):
        raise ResultTypeError(
            f"{where} declares the result type {text}, expected sizes that are integers, since "
            "shapes are fixed when the program is compiled. Declare the shape of the result."
        )
    if any(size < 0 for size in sizes):
        raise ResultTypeError(
            f"{where} declares the result type {text}, expected sizes of at least 0. Declare "
            "the shape of the returned array."
        )
    # XLA multiplies the sizes of the remaining axes even if one size is 0.
    if math.prod(max(int(size), 1) for size in sizes) * np.dtype(dtype).itemsize >= 2**63:
        raise ResultTypeError(
            f"{where} declares the result type {text}, which exceeds the address space (2**63 "
            "bytes). Declare a smaller shape."
        )
    return ShapedArray(tuple(shape), dtype)


def _is_number(leaf: object) -> bool:
    return isinstance(leaf, _PYTHON_SCALARS) and not isinstance(leaf, np.generic)


def _dtype(leaf: Any) -> Any:
    """Return the dtype of one leaf of a declared result type; None if it has none.

    Args:
        leaf: a type, a dtype, a number, or an object with an attribute ``dtype``.
    """
    if isinstance(leaf, np.dtype):
        return leaf
    if isinstance(leaf, type) and leaf in _DTYPES_BY_TYPE:
        return _DTYPES_BY_TYPE[leaf]
    if _is_number(leaf):
        return np.result_type(leaf)
    # Arrays, ``ShapeDtypeStruct`` and jax.numpy's scalar types have an attribute `dtype`.
    return getattr(leaf, "dtype", None)
