"""Argument and result checks of compiled functions; errors name the faulty leaf."""

import functools
import inspect
import re
import typing
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from bellhop.arguments.accepted_arguments import describe_mismatch
from bellhop.arguments.declared_types import result_avals
from bellhop.arguments.flat_tree import FlatTree
from bellhop.arguments.static_arguments import POSITIONAL
from bellhop.base.source import function_name
from bellhop.base.types import Args, Kwargs, PyTree, to_structs
from bellhop.base.uncalled_function import describe_uncalled
from bellhop.base.value_checks import check_dictionary_keys, check_no_measurements
from bellhop.errors import ResultTypeError, format_value


class DeclaredSignature:
    """Argument types of a function whose annotations declare shapes and dtypes.

    `declared_signature` makes it. The function is compiled for these types before the first call,
    and the arguments of a call are converted to these types.

    Args:
        name: name of the function, for errors.
        signature: Python signature of the function.
        args: for each parameter a `FlatTree`, whose leaves are the declared types.

    Attributes:
        args: as the argument.
    """

    def __init__(self, name: str, signature: inspect.Signature, args: tuple[FlatTree, ...]) -> None:
        self.args = args
        self._name = name
        self._signature = signature
        self._leaves = jax.tree.leaves(args)
        self._trees = [arg.tree for arg in args]

    def __str__(self) -> str:
        return describe_leaves(self._leaves)

    def matches(self, types: Any) -> bool:
        """Return whether argument types equal the declared types, without any conversion.

        Args:
            types: ``(args, kwargs)`` of `FlatTree` objects with types as leaves.
        """
        return jax.tree.flatten(types) == jax.tree.flatten((self.args, {}))

    def promote(self, args: Args, kwargs: Kwargs) -> Any:
        """Convert the arguments of a call to the types in the function's annotations.

        For example 1 is converted to 1.0 for ``x: float``. Arguments that were passed by keyword
        become positional, and default values are added.

        Returns:
            the converted arguments, one for each parameter; None if JAX's type promotion does not
            lead to the declared types, or if a shape or the structure of a pytree differs.

        Raises:
            TypeError: if an argument is missing, there are too many, or a keyword argument is
                unknown or was passed by position too.
        """
        if kwargs or len(args) != len(self.args):
            try:
                bound = self._signature.bind(*args, **kwargs)
            except TypeError as error:
                fault = describe_mismatch(self._signature, kwargs, error)
                raise TypeError(
                    f"{self._name}(): the arguments do not match: {fault}. The function takes "
                    f"({self})."
                ) from None
            bound.apply_defaults()
            args = bound.args
        leaves, tree = jax.tree.flatten(args)
        if tree.children() != self._trees:
            return None
        promoted = []
        for leaf, declared in zip(leaves, self._leaves, strict=True):
            if not _has_dtype(leaf, declared.dtype):
                if not _can_promote(leaf, declared.dtype):
                    return None
                convert = jnp.asarray if isinstance(leaf, jax.Array) else np.asarray
                leaf = convert(leaf, declared.dtype)
            if leaf.shape != declared.shape:
                return None
            promoted.append(leaf)
        return jax.tree.unflatten(tree, promoted)

    @functools.cached_property
    def leaves(self) -> tuple[Any, ...] | None:
        """Declared types as data for C++, which converts arguments without Python.

        For each argument a tuple of dtype, shape, NumPy scalar type, and the Python scalar types
        that `promote` converts to it. None unless each declared argument is a single array.
        """
        if self._trees != [jax.tree.structure(0)] * len(self._trees):
            return None
        return tuple(
            (leaf.dtype, leaf.shape, leaf.dtype.type, _promotable_scalars(leaf))
            for leaf in self._leaves
        )


def _has_dtype(leaf: object, dtype: DTypeLike) -> bool:
    """Return whether a value is an array or NumPy scalar with a dtype, and not weakly typed."""
    if isinstance(leaf, jax.Array) and leaf.weak_type:
        return False
    return isinstance(leaf, jax.Array | np.ndarray | np.generic) and leaf.dtype == dtype


def _promotable_scalars(declared: Any) -> tuple[type[Any], ...]:
    """List the Python scalar types whose values JAX promotes to a declared type.

    Returns:
        types among bool, int, float and complex; empty if `declared` is not a scalar.
    """
    if declared.shape or declared.dtype.kind not in "biufc":
        return ()
    return tuple(
        kind for kind in (bool, int, float, complex) if _can_promote(kind(), declared.dtype)
    )


def _can_promote(leaf: object, dtype: DTypeLike) -> bool:
    """Return whether JAX's type promotion converts a value to a dtype.

    Args:
        leaf: an array or a scalar; other values return False.
    """
    # `check_arrays` reports values that are not arrays; `jnp.result_type` would accept some as
    # dtypes.
    if isinstance(leaf, str | type | np.dtype):
        return False
    try:
        given = jnp.result_type(leaf)
    except TypeError:
        return False
    return jnp.promote_types(given, dtype) == dtype


def declared_signature(function: Callable[..., Any]) -> DeclaredSignature | None:
    """Read the argument types that a function's annotations declare.

    For example ``x: jax.ShapeDtypeStruct((3,), float)`` or ``x: float`` declare types.

    Returns:
        the types; an empty signature for a function without parameters; None unless every parameter
        is positional and has an annotation with shape and dtype.
    """
    try:
        signature = inspect.signature(function)
        # A function without parameters is fully declared, even if its return annotation is invalid.
        hints = typing.get_type_hints(function) if signature.parameters else {}
    except Exception:
        # Annotations can be arbitrary objects and need not be types.
        return None
    args = []
    for parameter in signature.parameters.values():
        if parameter.kind not in POSITIONAL or parameter.name not in hints:
            return None
        try:
            avals, tree = result_avals(function, hints[parameter.name], narrows=True)
        except ResultTypeError:
            return None
        specs = to_structs(avals)
        args.append(FlatTree.from_structure(tree, specs))
    return DeclaredSignature(function_name(function), signature, tuple(args))


def check_arrays(
    where: str,
    names: Sequence[str],
    args: Args,
    kwargs: Kwargs,
    *,
    are_values: bool = False,
    describe_types: Callable[[], str] | None = None,
) -> None:
    """Raise an error for arguments that JAX does not accept as arrays.

    Args:
        where: the compiled function and its line, for errors.
        names: names of the positional parameters; further arguments are named ``args[2]``.
        args: positional arguments, pytrees.
        kwargs: keyword arguments, pytrees.
        are_values: whether to also reject `ShapeDtypeStruct`, which only ``lower``, ``trace`` and
            ``eval_shape`` accept.
        describe_types: for a compiled function that cannot be traced again: returns a sentence with
            the argument types that it accepts. None for other functions: then the error may advise
            to make the argument static.

    Raises:
        TypeError: for a leaf that is not an array, and for mutable references and dictionaries
            whose keys cannot be sorted; names the argument and the leaf.
        OverflowError: for an integer that does not fit in any JAX type.
    """
    check_dictionary_keys(where, names, args, kwargs)
    for path, leaf in jax.tree_util.tree_leaves_with_path((args, kwargs)):
        if are_values and isinstance(leaf, jax.ShapeDtypeStruct):
            raise TypeError(
                f"{where}: the argument {leaf_name(names, path)} is a jax.ShapeDtypeStruct, the "
                "type of an array. Pass an array, or pass the type to lower, trace or eval_shape."
            )
        try:
            type_ = jax.typeof(leaf)
        except OverflowError as error:
            named = f"{where}: the argument {leaf_name(names, path)}"
            raise _integer_overflow_error(named, leaf, "Pass", error) from None
        except (TypeError, ValueError):
            if describe_types is None:
                advice = _advice(leaf, is_part=len(path) > 2)
            else:
                advice = f"{describe_types()} Pass arguments of these types."
            raise TypeError(
                f"{where}: the argument {leaf_name(names, path)} is {_describe_non_array(leaf)}. "
                f"{advice}"
            ) from None
        if not isinstance(type_, jax.core.ShapedArray):
            raise TypeError(
                f"{where}: the argument {leaf_name(names, path)} is a {type_}, a mutable "
                "reference, which is not supported. Pass its value, ref[...], and return the new "
                "value."
            )


def flatten_result(where: str, result: PyTree) -> tuple[list[Any], Any]:
    """Flatten the result of a traced function, and convert its leaves to arrays.

    Args:
        where: the compiled function and its line, for errors.

    Returns:
        the leaves as JAX or NumPy arrays or tracers, and the ``PyTreeDef``.

    Raises:
        TypeError: for a leaf that is not an array or a number, and for a dictionary whose keys
            cannot be sorted; names it.
        OverflowError: for an integer that does not fit in any JAX type.
        CompileError: if the result contains a PennyLane measurement.
    """
    check_no_measurements(where, result)
    paths, structure = jax.tree_util.tree_flatten_with_path(result)
    arrays = []
    for path, leaf in paths:
        try:
            arrays.append(_as_array(leaf))
        except (OverflowError, ValueError) as error:
            part = jax.tree_util.keystr(path)
            raise _integer_overflow_error(
                f"{where}: the result{part}", leaf, "Return", error
            ) from None
        except TypeError:
            part = jax.tree_util.keystr(path)
            if uncalled := describe_uncalled(leaf):
                raise TypeError(
                    f"{where}: the result{part} is a function, expected its result: {uncalled}"
                ) from None
            advice = "A program returns arrays, numbers, and pytrees of them."
            if _is_numpy_data(leaf):
                advice = _dtype_advice(leaf.dtype)
            elif callable(leaf):
                advice = f"{advice[:-1]}{uncalled_function_hint(leaf)}."
            raise TypeError(
                f"{where}: the result{part} is {_describe_non_array(leaf)}. {advice}"
            ) from None
    return arrays, structure


def _as_array(leaf: object) -> Any:
    """Convert a number to a JAX array; return arrays and tracers unchanged.

    Raises:
        TypeError: for values that JAX does not accept, such as NumPy arrays of strings.
    """
    if isinstance(leaf, np.ndarray | np.generic):
        jax.typeof(leaf)  # Raises for dtypes that JAX does not have.
    return leaf if hasattr(leaf, "dtype") else as_array(leaf)


def as_array(value: object) -> Any:
    """Convert a number, array or sequence of numbers to a JAX array; reject strings.

    Raises:
        TypeError: for strings, bytes, and other values that JAX does not accept.
    """
    if isinstance(value, str | bytes):
        # NumPy would parse some strings as dtypes or numbers.
        raise TypeError(f"{value!r} is a string, expected an array or a number")
    return jnp.asarray(value)


def uncalled_function_hint(value: object) -> str:
    """Return advice to call a function that was returned in place of an array.

    Args:
        value: the value, for example a decorated loop that was not called.

    Returns:
        the end of a sentence for an error, which begins with a semicolon; empty if the value is not
        callable.
    """
    return "; call a function to return its result, f() in place of f" if callable(value) else ""


def _integer_overflow_error(where: str, leaf: object, verb: str, error: Exception) -> Exception:
    """Create the error for an integer that does not fit in JAX's integer types.

    Args:
        where: function and argument, for the message.
        leaf: the value whose conversion to an array failed.
        verb: imperative verb of the remedy, ``Pass`` or ``Return``.
        error: exception of the conversion.

    Returns:
        an `OverflowError`; `error` if `leaf` is not an integer.
    """
    if not isinstance(leaf, int):
        return error
    bits = jax.dtypes.canonicalize_dtype(int).itemsize * 8
    remedy = f"{verb} a float{', or numpy.uint64(x) if it fits' if bits == 64 else ''}"
    return OverflowError(
        f"{where} is {format_value(leaf)}, which does not fit in {bits} bits. {remedy}."
    )


def make_leaf_signature(names: Sequence[str], args: Args, kwargs: Kwargs) -> inspect.Signature:
    """Make a signature with one positional-only parameter for each argument leaf.

    JAX shows the names in the compiled program: the leaves of ``f(x={"a": 1, "b": 2})`` are named
    ``x_a`` and ``x_b``. A name that occurs before gets a number: ``x``, then ``x_1``.

    Args:
        names: names of the function's positional parameters; further arguments are ``args[2]``.
        args: positional arguments, pytrees.
        kwargs: keyword arguments, pytrees.
    """
    used: dict[str, None] = {}
    for path, _ in jax.tree_util.tree_leaves_with_path((args, kwargs)):
        name = stem = re.sub(r"\W+", "_", leaf_name(names, path).rstrip("]'"))
        number = 0
        while name in used:
            number += 1
            name = f"{stem}_{number}"
        used[name] = None
    kind = inspect.Parameter.POSITIONAL_ONLY
    return inspect.Signature([inspect.Parameter(name, kind) for name in used])


def leaf_name(names: Sequence[str], path: tuple[Any, ...]) -> str:
    """Return the user's expression for an argument leaf, such as ``x['a'][0]``.

    Args:
        names: names of the positional parameters; further arguments are named ``args[2]``.
        path: JAX's key path of the leaf in ``(args, kwargs)``.
    """
    part, where, *inner = path
    if part.idx == 1:
        name = str(where.key)
    else:
        name = names[where.idx] if where.idx < len(names) else f"args[{where.idx}]"
    return name + jax.tree_util.keystr(tuple(inner))


def array_types(arguments: Any) -> Any:
    """Replace the arrays in a pytree by their types, `ShapeDtypeStruct` objects.

    Weak types stay weak. The pytree may have `FlatTree` nodes.
    """

    # A ShapeDtypeStruct takes long to make, and hundreds of leaves can have one type.
    @functools.cache
    def to_struct(aval: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)

    return jax.tree.map(lambda leaf: to_struct(jax.typeof(leaf)), arguments)


def describe_leaves(leaves: Iterable[Any]) -> str:
    """Format the dtypes and shapes of arrays, as in ``float64[3], int64[]``."""
    return ", ".join(f"{jnp.result_type(x)}[{','.join(map(str, jnp.shape(x)))}]" for x in leaves)


def is_rejected_array(leaf: object) -> bool:
    """Return whether JAX rejects a NumPy array: masked, or in another byte order.

    JAX rejects such an array when it compiles a function for it. The cache of compiled functions
    does not distinguish it from other arrays, so that a later call would accept it.

    Args:
        leaf: any value; False for values that are not NumPy arrays.
    """
    if not isinstance(leaf, np.ndarray):
        return False
    return not leaf.dtype.isnative or isinstance(leaf, np.ma.MaskedArray)


def _describe_non_array(value: object) -> str:
    """Describe a value that is not an array, as the end of "the argument x is ...".

    For example ``of type str, which is not an array``.
    """
    if isinstance(value, np.ma.MaskedArray):
        return "a masked array, which JAX does not support"
    if _is_numpy_data(value):
        kind = "an array" if isinstance(value, np.ndarray) else "a scalar"
        return f"{kind} of dtype {value.dtype}, which JAX does not support"
    return f"of type {type(value).__name__}, which is not an array"


def _is_numpy_data(value: object) -> TypeGuard[np.ndarray | np.generic]:
    """Return whether a value is a NumPy array or scalar, but not a NumPy string."""
    return isinstance(value, np.ndarray | np.generic) and not isinstance(value, str | bytes)


def _advice(value: object, is_part: bool = False) -> str:
    """Return the remedy for an argument that is not an array, a sentence for an error.

    Args:
        value: the argument, or a leaf of it, such as a PyTorch tensor or a string.
        is_part: whether `value` is a leaf of a pytree, which as a whole cannot be static.
    """
    framework = type(value).__module__.partition(".")[0]
    if framework == "torch":
        return "Convert the function for PyTorch by bellhop.to_torch."
    if framework == "autograd":
        return (
            "Pass arrays of PennyLane's autograd as separate arguments, or differentiate with "
            "bellhop.grad."
        )
    if isinstance(value, np.ma.MaskedArray):
        return "Pass an array without a mask, x.filled(value)."
    if _is_numpy_data(value):
        # NumPy arrays are not hashable, so they cannot be static.
        return _dtype_advice(value.dtype)
    if hasattr(value, "__array__") and not isinstance(value, str | bytes):
        # For example, a column of a table.
        return "Convert the argument to an array of numbers by numpy.asarray."
    if is_part:
        # A pytree with arrays is not hashable, so it cannot be static.
        return (
            "Pass the pytree's arrays, and keep the remaining leaves in a closure, as "
            "equinox.partition and equinox.combine do."
        )
    if not isinstance(value, Hashable):
        return "Pass arrays and numbers, and let the function read other values from its closure."
    return (
        "Make the argument static (static_argnums, static_argnames) if the program may depend on "
        "its value."
    )


def _dtype_advice(dtype: np.dtype) -> str:
    """Return the remedy for a NumPy dtype that JAX does not have."""
    if dtype.names is not None:
        return "Use a dictionary of its fields, {name: x[name] for name in x.dtype.names}."
    if not dtype.isnative:
        return "Convert the array, x.astype(x.dtype.newbyteorder('='))."
    return (
        "Convert it to a boolean, integer, floating-point or complex dtype of JAX, such as "
        "x.astype(numpy.float64), or numpy.complex128 for complex numbers."
    )
