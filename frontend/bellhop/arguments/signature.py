"""Arguments and results of compiled functions: declared types, and errors that name a part."""

import functools
import inspect
import itertools
import re
import typing
from collections.abc import Callable, Collection, Iterable, Sequence
from types import FunctionType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from bellhop.arguments.declared_types import ResultTypeError, result_avals
from bellhop.arguments.flat_tree import FlatTree
from bellhop.arguments.static_arguments import POSITIONAL
from bellhop.base.source import function_name
from bellhop.base.types import Args, Kwargs, PyTree, to_structs
from bellhop.base.value_checks import check_dictionary_keys, check_no_measurements
from bellhop.errors import format_value, suggest_name

# Options of callbacks: a misspelled one is taken for an argument of the function.
_CALLBACK_OPTIONS = ("asynchronous", "ordered", "partitioned", "result_type", "vmap_method")


class DeclaredSignature:
    """The types that a function's annotations declare for its arguments.

    Attributes:
        args: shapes and dtypes of the leaves of each argument.
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
        """Tell whether the types of arguments are those that are declared."""
        return jax.tree.flatten(types) == jax.tree.flatten((self.args, {}))

    def promote(self, args: Args, kwargs: Kwargs) -> Any:
        """Return all arguments, by position, in the declared types.

        Returns None where some do not promote to them.

        Raises:
            TypeError: where their number or a name is wrong.
        """
        if kwargs or len(args) < len(self.args):
            try:
                bound = self._signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(
                    f"{self._name}() cannot be called so: {error}. It takes ({self})."
                ) from None
            bound.apply_defaults()
            args = bound.args
        leaves, tree = jax.tree.flatten(args)
        if tree.children() != self._trees:
            return None
        promoted = []
        for leaf, declared in zip(leaves, self._leaves, strict=True):
            if not _is_of_type(leaf, declared.dtype):
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
        """What arguments have to be that are one array each: dtype, shape, type of scalars, and
        Python's types of which ``promote`` makes such a scalar; None where one is a pytree.
        """
        if self._trees != [jax.tree.structure(0)] * len(self._trees):
            return None
        return tuple((of.dtype, of.shape, of.dtype.type, _scalars(of)) for of in self._leaves)


def _is_of_type(leaf: object, dtype: DTypeLike) -> bool:
    if isinstance(leaf, jax.Array) and leaf.weak_type:
        return False
    return isinstance(leaf, jax.Array | np.ndarray | np.generic) and leaf.dtype == dtype


def _scalars(declared: Any) -> tuple[type[Any], ...]:
    if declared.shape or declared.dtype.kind not in "biufc":
        return ()
    return tuple(
        kind for kind in (bool, int, float, complex) if _can_promote(kind(), declared.dtype)
    )


def _can_promote(leaf: object, dtype: DTypeLike) -> bool:
    # What is no value is told where calls are checked; JAX takes some of it for a dtype.
    if isinstance(leaf, str | type | np.dtype):
        return False
    try:
        given = jnp.result_type(leaf)
    except TypeError:
        return False
    return jnp.promote_types(given, dtype) == dtype


def declared_signature(function: Callable[..., Any]) -> DeclaredSignature | None:
    """Return what annotations declare, or None where they do not declare every argument.

    A function without arguments declares them all.
    """
    try:
        signature = inspect.signature(function)
        # What takes nothing declares everything, whatever else its annotations say.
        hints = typing.get_type_hints(function) if signature.parameters else {}
    except Exception:
        # Annotations are anything, and need not mean anything.
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


def check_call(
    called: str, function: Callable[..., Any], count: int, names: Collection[str], advice: str = ""
) -> None:
    """Refuse a call of a function that it would refuse when it is called.

    Args:
        called: what is called, and from where.
        function: what is called; what does not say what it takes may take anything.
        count: of the arguments with a position.
        names: of the others.
        advice: what else to say.

    Raises:
        TypeError: as Python's says, and what the function takes.
    """
    if isinstance(function, FunctionType):
        # To ask ``inspect`` takes a fifth of the time that it takes to trace a callback.
        code = function.__code__
        if code.co_argcount == count and code.co_kwonlyargcount == 0 and not names:
            return
        if hasattr(function, "__signature__"):
            # It is for readers, and a wrapper's may be that of the function inside.
            return
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*[None] * count, **dict.fromkeys(names))
    except TypeError as error:
        raise TypeError(
            f"{called} cannot be called so: {error}. It takes {signature}.{advice}"
            f"{''.join(suggest_name(name, _CALLBACK_OPTIONS) for name in sorted(names))}"
        ) from None


def check_arrays(
    where: str, names: Sequence[str], args: Args, kwargs: Kwargs, *, are_values: bool = False
) -> None:
    """Refuse arguments that are no arrays.

    Args:
        where: the compiled function and its line.
        names: of the arguments with a position.
        args: these arguments.
        kwargs: arguments by name.
        are_values: whether types of arrays are refused too, which ``lower`` takes.

    Raises:
        TypeError: naming the argument, or its part.
        OverflowError: likewise, for an integer that no type of JAX's holds.
    """
    check_dictionary_keys(where, names, args, kwargs)
    for path, leaf in jax.tree_util.tree_leaves_with_path((args, kwargs)):
        if are_values and isinstance(leaf, jax.ShapeDtypeStruct):
            raise TypeError(
                f"{where}: the argument {_leaf_name(names, path)} is a jax.ShapeDtypeStruct, the "
                "type of an array. Pass an array, or give the type to lower, trace or eval_shape."
            )
        try:
            type_ = jax.typeof(leaf)
        except OverflowError as error:
            named = f"{where}: the argument {_leaf_name(names, path)}"
            raise _integer_overflow_error(named, leaf, "Pass", error) from None
        except TypeError:
            raise TypeError(
                f"{where}: the argument {_leaf_name(names, path)} is {_describe_non_array(leaf)}. "
                f"{_advice(leaf)}"
            ) from None
        if not isinstance(type_, jax.core.ShapedArray):
            raise TypeError(
                f"{where}: the argument {_leaf_name(names, path)} is a {type_}, which is memory of "
                "JAX's that another program changes in place. Pass its value, ref[...], and return "
                "the new one."
            )


def check_not_deleted(
    where: str, names: Sequence[str], args: Args, kwargs: Kwargs, failed: Exception
) -> None:
    """Refuse arguments whose memory is gone, where a run has failed.

    Args:
        where: the compiled function and its line.
        names: of the arguments with a position.
        args: these arguments.
        kwargs: arguments by name.
        failed: how the run failed.

    Raises:
        RuntimeError: naming the argument, or its part.
    """
    for path, leaf in jax.tree_util.tree_leaves_with_path((args, kwargs)):
        if _is_deleted(leaf):
            raise RuntimeError(
                f"{where}: the argument {_leaf_name(names, path)} is an array that was deleted, or "
                "that a call was given to overwrite (donate_argnums). Pass what that call "
                "returned, or donate a copy, x.copy()."
            ) from failed


def _is_deleted(leaf: object) -> bool:
    if not isinstance(leaf, jax.Array) or isinstance(leaf, jax.core.Tracer):
        return False
    return bool(leaf.is_deleted())


def flatten_result(where: str, result: PyTree) -> tuple[list[Any], Any]:
    """Return the leaves of what a traced function returned, as arrays, and its structure.

    Args:
        where: the compiled function and its line.
        result: a pytree.

    Raises:
        TypeError: naming the part that is no array.
        OverflowError: likewise, for an integer that no type of JAX's holds.
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
            raise TypeError(
                f"{where}: the result{part} is {_describe_non_array(leaf)}. "
                f"A program returns arrays, numbers, and pytrees of them{uncalled_loop_hint(leaf)}."
            ) from None
    return arrays, structure


def _as_array(leaf: object) -> Any:
    if isinstance(leaf, np.ndarray | np.generic):
        jax.typeof(leaf)  # Refuses a dtype that JAX does not have.
    return leaf if hasattr(leaf, "dtype") else as_array(leaf)


def as_array(value: object) -> Any:
    """Return an array, of what JAX makes one of.

    Raises:
        TypeError: for anything else.
    """
    if isinstance(value, str | bytes):
        # JAX asks NumPy, for which some texts are names of types, and others numbers.
        raise TypeError(f"{value!r} is text, and JAX has arrays of numbers only")
    return jnp.asarray(value)


def uncalled_loop_hint(value: object) -> str:
    """Return what else to say of what is no array: that a loop, or another function, is called."""
    return "; if it is to be called, call it: f() in place of f" if callable(value) else ""


def _integer_overflow_error(named: str, leaf: object, advice: str, error: Exception) -> Exception:
    """Return the error for an integer that no type of JAX's holds; other errors are as they are."""
    if not isinstance(leaf, int):
        return error
    bits = jax.dtypes.canonicalize_dtype(int).itemsize * 8
    unsigned = ", or numpy.uint64 of it where that holds it" if bits == 64 else ""
    return OverflowError(
        f"{named} is {format_value(leaf)}, which does not fit in {bits} bits. {advice} a "
        f"float{unsigned}."
    )


def make_leaf_signature(names: Sequence[str], args: Args, kwargs: Kwargs) -> inspect.Signature:
    """Return the signature of a function of the leaves of arguments, each with a name of its own.

    Args:
        names: of the arguments with a position.
        args: these arguments.
        kwargs: arguments by name.
    """
    taken: dict[str, None] = {}
    for path, _ in jax.tree_util.tree_leaves_with_path((args, kwargs)):
        text = _leaf_name(names, path)
        name = stem = "_".join(re.findall(r"\w+", text))
        for number in itertools.count(1):
            if name not in taken:
                break
            name = f"{stem}_{number}"
        taken[name] = None
    kind = inspect.Parameter.POSITIONAL_ONLY
    return inspect.Signature([inspect.Parameter(name, kind) for name in taken])


def _leaf_name(names: Sequence[str], path: tuple[Any, ...]) -> str:
    """Return what the user calls a leaf of ``(args, kwargs)``: ``x``, ``x['a'][0]``."""
    part, where, *inner = path
    if part.idx == 1:
        name = str(where.key)
    else:
        name = names[where.idx] if where.idx < len(names) else f"args[{where.idx}]"
    return name + jax.tree_util.keystr(tuple(inner))


def array_types(arguments: Any) -> Any:
    """Return the shapes and dtypes of arrays, in the structure of what is a ``FlatTree``."""

    def to_struct(leaf: object) -> jax.ShapeDtypeStruct:
        aval = jax.typeof(leaf)
        return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)

    return jax.tree.map(to_struct, arguments)


def describe_leaves(leaves: Iterable[Any]) -> str:
    """Describe array arguments by dtype and shape."""
    return ", ".join(f"{jnp.result_type(x)}[{','.join(map(str, jnp.shape(x)))}]" for x in leaves)


def _describe_non_array(value: object) -> str:
    """Return what a value is that JAX does not take for an array, after an "is"."""
    if isinstance(value, np.ndarray | np.generic):
        return f"an array of dtype {value.dtype}, which JAX does not have"
    return f"of type {type(value).__name__}, which is no array"


def _advice(value: object) -> str:
    """Return what to do with an argument that is no array."""
    framework = type(value).__module__.partition(".")[0]
    if framework == "torch":
        return "Call it from PyTorch by bellhop.to_torch of it."
    if framework == "autograd":
        return "It is of PennyLane's autograd, give it by position; or use bellhop.grad."
    if isinstance(value, np.ndarray):
        # Not hashable, and so never static.
        return _conversion(value.dtype)
    if hasattr(value, "__array__"):
        # Of a table, for example.
        return "Make it one: numpy.asarray of it."
    return "Make it static (static_argnums, static_argnames) if it is part of the program."


def _conversion(dtype: np.dtype) -> str:
    if dtype.names is not None:
        return "Pass a dictionary of its fields, {name: x[name] for name in x.dtype.names}."
    if not dtype.isnative:
        return "Convert it, x.astype(x.dtype.newbyteorder('='))."
    return "Convert it to a type of numbers of at most 64 bits, as x.astype(float)."
