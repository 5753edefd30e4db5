"""Callbacks and array types of saved programs, as data."""

import math
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray

from bellhop.archive.escaping import escape_controls
from bellhop.archive.functions import Function, NameResolver, encode_function
from bellhop.archive.schema import Malformed
from bellhop.archive.trees import Tree, decode_tree, encode_tree
from bellhop.base.types import Aval
from bellhop.compiler.buffer_callback_target import (
    BufferCallbackTarget,
    ZeroedBufferCallbackTarget,
)
from bellhop.compiler.builtin_function import BuiltinFunction
from bellhop.compiler.callback_target import CallbackTarget
from bellhop.compiler.native_target import NativeSymbol, NativeTarget
from bellhop.errors import CompileError
from bellhop_runtime import DTYPES

# Elements of an array; axes without elements count as one.
_LARGEST = 2**48
_DTYPES = {np.dtype(dtype).name: np.dtype(dtype) for dtype in DTYPES}
# Fields that errors show.
_TEXTS = ("public_name", "site", "missing_rule", "circuit")
# Axes of an array; NumPy has no more.
_MOST_AXES = 64


@dataclass(frozen=True)
class SavedAval:
    """Type of an array in a file.

    Attributes:
        shape: its shape.
        dtype: NumPy's name of its dtype, such as ``"float64"``.
        weak: whether it is JAX's weak type.
    """

    shape: tuple[int, ...]
    dtype: str
    weak: bool


_COMMON_FIELDS = typing.get_type_hints(CallbackTarget)


def _added_fields(kind: type[CallbackTarget]) -> dict[str, Any]:
    """Find the fields that a subclass adds to `CallbackTarget`, with their types.

    Args:
        kind: the subclass.

    Returns:
        the type of each field by its name, as a union with None: a callback in a file has the
        fields of all subclasses, and fields that its own class does not have are None.
    """
    hints = typing.get_type_hints(kind)
    return {name: form | None for name, form in hints.items() if name not in _COMMON_FIELDS}


_BUFFER_FIELDS = _added_fields(BufferCallbackTarget)
_NATIVE_FIELDS = _added_fields(NativeTarget) | {"argument_avals": tuple[SavedAval, ...] | None}
# Format of a callback; fields that refer to Python objects have their own formats.
TARGET = {
    **_COMMON_FIELDS,
    **_BUFFER_FIELDS,
    **_NATIVE_FIELDS,
    "function": Function,
    "in_tree": Tree,
    "out_tree": Tree,
    "result_avals": tuple[SavedAval, ...],
}


def encode_target(target: CallbackTarget) -> dict[str, Any]:
    """Convert a callback to a dictionary of its fields, for JSON.

    ``TARGET`` has the types of the fields.

    Raises:
        CompileError: for a callback of JAX itself, and if a function, structure or type in the
            callback cannot be saved.
    """
    what = target.name_and_site
    arguments, results = f"the arguments of {what}", f"the result of {what}"
    if target.public_name.startswith("jax."):
        raise CompileError(
            f"{what} cannot be saved: callbacks of JAX itself contain functions of this process. "
            "Use bellhop.pure_callback, bellhop.io_callback or bellhop.debug."
        )
    return (
        dict.fromkeys((*_BUFFER_FIELDS, *_NATIVE_FIELDS))
        | vars(target)
        | {
            "function": encode_function(target.function, what),
            "in_tree": encode_tree(target.in_tree, arguments),
            "out_tree": encode_tree(target.out_tree, results),
            "result_avals": [encode_aval(aval, results) for aval in target.result_avals],
        }
        | (
            {"argument_avals": [encode_aval(aval, arguments) for aval in target.argument_avals]}
            if isinstance(target, NativeTarget)
            else {}
        )
    )


def decode_target(record: dict[str, Any], resolver: NameResolver) -> CallbackTarget:
    """Build a `CallbackTarget`, or an object of a subclass, from its data in a file.

    A C function gives a `NativeTarget`, and fields of buffers give a `BufferCallbackTarget`.

    Args:
        record: fields of the callback by name; ``TARGET`` has their types.
        resolver: resolves the names of functions and classes.

    Raises:
        Malformed: if a parameter of a C function is missing, or a type or structure is invalid.
        CompileError: if the function is not allowed, or cannot be found.
    """
    out_tree, result_avals = decode_typed(record, "out_tree", "result_avals", resolver)
    fields = record | {
        "function": resolver.resolve_function(record["function"]),
        "in_tree": decode_tree(record["in_tree"], resolver),
        "out_tree": out_tree,
        "result_avals": result_avals,
    }
    # Errors show these texts.
    for name in _TEXTS:
        if fields[name] is not None:
            fields[name] = escape_controls(fields[name])
    kind, names = CallbackTarget, set(_COMMON_FIELDS)
    if isinstance(fields["function"], NativeSymbol):
        if missing := sorted(name for name in _NATIVE_FIELDS if fields[name] is None):
            raise Malformed(
                f"the file calls the C function {fields['function'].name!r}, but does not have "
                f"the fields {', '.join(missing)} of this call"
            )
        kind, names = NativeTarget, names | _NATIVE_FIELDS.keys()
        fields["argument_avals"] = tuple(map(decode_aval, record["argument_avals"]))
    elif all(fields[name] is not None for name in _BUFFER_FIELDS):
        kind = BufferCallbackTarget if resolver.trust else ZeroedBufferCallbackTarget
        names |= _BUFFER_FIELDS.keys()
    target = kind(**{name: fields[name] for name in names})
    _verify_own_function(target)
    return target


def _verify_own_function(target: CallbackTarget) -> None:
    """Raise an error if a file passes a function of Bellhop impossible options.

    For example, a function that returns its results must not get output buffers: it would not
    write to them, and they would show another program's data. ``print`` is checked like Bellhop's
    functions; a user's function may have any options. `verify_call` checks the types of the calls.

    Args:
        target: a callback of the file.

    Raises:
        Malformed: if no program of Bellhop calls the function with these options.
    """
    function = target.function
    if function is print:
        is_known = not isinstance(target, BufferCallbackTarget) and not target.result_avals
    elif isinstance(function, BuiltinFunction):
        has_options = target.loops or target.takes_device or target.transforms is not None
        is_known = type(target) is CallbackTarget and not has_options
    else:
        return
    if not is_known:
        raise Malformed(
            f"the file calls Bellhop's '{target.name}' in a way that no program does: with "
            "results, options or buffers that this function does not have"
        )


def verify_call(target: CallbackTarget, kind: str, inputs: Sequence[ShapedArray]) -> None:
    """Raise an error unless a callback takes the kind and types of a file's call.

    Args:
        target: the callback.
        kind: kind of the call, a key of ``KINDS`` such as ``"pure"``.
        inputs: types of the leaves of its arguments.

    Raises:
        Malformed: if a function of Bellhop does not take the kind or the types, or the mapped
            axes or aliases of the callback are not valid.
    """
    function, results = target.function, target.result_avals
    if isinstance(function, BuiltinFunction):
        has_plain_types = not results or (
            target.out_tree == jax.tree.structure(0)
            and target.in_tree == jax.tree.structure(((0,) * len(inputs), {}))
        )
        if (
            kind not in function.kinds
            or not has_plain_types
            or not function.accepts_types(inputs, results)
        ):
            types = ", ".join(aval.str_short() for aval in (*inputs, *results))
            raise Malformed(
                f"the file calls Bellhop's '{target.name}' by a call of kind '{kind}' with the "
                f"types ({types}), which no program does"
            )
    if target.loops != target.program_loops and not _has_axes(target, inputs):
        raise Malformed(
            f"the file maps '{target.name}' over {len(target.loops)} axes, which its arguments and "
            "results do not have"
        )
    for argument, result in target.aliases:
        if not (0 <= argument < len(inputs) and 0 <= result < len(results)):
            raise Malformed(
                f"the file aliases arguments of '{target.name}' with results: argument {argument} "
                f"with result {result}, expected one of {len(inputs)} arguments and one of "
                f"{len(results)} results"
            )


def _has_axes(target: CallbackTarget, inputs: Sequence[ShapedArray]) -> bool:
    """Return whether a callback's arguments and results begin with its mapped axes.

    Args:
        target: the callback; ``target.loops`` has the mapped axes.
        inputs: types of the leaves of its arguments.
    """
    if any(len(loop) != len(inputs) or not any(loop) for loop in target.loops):
        return False
    sizes: dict[int, int] = {}
    for number, aval in enumerate((*inputs, *target.result_avals)):
        is_result = number >= len(inputs)
        axes = [axis for axis, loop in enumerate(target.loops) if is_result or loop[number]]
        if len(aval.shape) < len(axes):
            return False
        for axis, size in zip(axes, aval.shape, strict=False):
            if sizes.setdefault(axis, size) != size:
                return False
    return True


def decode_typed(record: dict[str, Any], tree: str, avals: str, resolver: NameResolver) -> Any:
    """Read a ``PyTreeDef`` and the tuple of its leaves' types from a record of a file.

    Args:
        record: data of a program or callback.
        tree: key of the structure in the record, such as ``"in_tree"``.
        avals: key of the leaves' types in the record, such as ``"in_avals"``.
        resolver: resolves the classes of named tuples.

    Raises:
        Malformed: if the numbers of leaves and of types differ.
    """
    structure = decode_tree(record[tree], resolver)
    if structure.num_leaves != len(record[avals]):
        raise Malformed(
            f"the file's field {avals} does not have one entry for each leaf of the field {tree}: "
            f"expected {structure.num_leaves} entries, got {len(record[avals])}"
        )
    return structure, tuple(map(decode_aval, record[avals]))


def encode_aval(aval: Aval, what: str) -> SavedAval:
    """Convert an array type to data for a saved file.

    Args:
        aval: the type.
        what: description of the arguments or results with this type, for errors.

    Raises:
        CompileError: for arrays of typed random keys.
    """
    if jax.dtypes.issubdtype(aval.dtype, jax.dtypes.extended):
        raise CompileError(
            f"{what} cannot be saved: got an array of random keys, of type {aval.dtype}. Use "
            "jax.random.key_data(key) there, and convert it by jax.random.wrap_key_data."
        )
    weak = bool(getattr(aval, "weak_type", False))
    return SavedAval(tuple(aval.shape), np.dtype(aval.dtype).name, weak)


def decode_aval(aval: SavedAval) -> ShapedArray:
    """Convert an array type in a file to a `ShapedArray`.

    Raises:
        Malformed: if arrays cannot have the dtype or the shape.
    """
    if aval.dtype not in _DTYPES:
        raise _nonexistent_type_error(aval)
    decoded = ShapedArray(aval.shape, _DTYPES[aval.dtype], weak_type=aval.weak)
    verify_shape(decoded)
    return decoded


def verify_shape(aval: Any) -> None:
    """Raise an error if an array type in a file has a shape that no array can have.

    Args:
        aval: the type, with ``dtype`` and ``shape``.

    Raises:
        Malformed: for negative sizes, more than 64 axes, or 2**48 elements or more.
    """
    shape = aval.shape
    sizes = [max(size, 1) for size in shape[:_MOST_AXES]]
    if len(shape) > _MOST_AXES or min(shape, default=0) < 0 or math.prod(sizes) >= _LARGEST:
        raise _nonexistent_type_error(aval)


def _nonexistent_type_error(aval: Any) -> Malformed:
    axes = [*map(str, aval.shape[:_MOST_AXES]), *["..."] * (len(aval.shape) > _MOST_AXES)]
    type_ = f"{aval.dtype}[{', '.join(axes)}]"
    return Malformed(f"the file has an array of type {type_}, which does not exist")
