"""The arguments of compiled functions: declared types, and static ones."""

import inspect
import itertools
import operator
import re
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.base.declared_types import ResultTypeError, result_avals
from bellhop.base.no_arrays import advice, described
from bellhop.base.source import definition_site, function_name

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class StaticArguments:
    """Which arguments of a function are part of its program.

    Args:
        function: the user's function.
        argnums: their positions; negative ones count from the end.
        argnames: their names.

    An argument that has a position and a name is static however it is passed.

    Attributes:
        argnums: all positions, of names too, from 0 on.
        argnames: all names, of positions too.

    Raises:
        TypeError: for what is no position or no name.
        ValueError: for a position or name that the function has not.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        argnums: int | Iterable[int] | None,
        argnames: str | Iterable[str] | None,
    ) -> None:
        self._where = f"'{function_name(function)}' ({definition_site(function)})"
        self._positions = set(positions("static_argnums", argnums))
        self._names = set(names("static_argnames", argnames))
        if self._positions or self._names:
            self._complete(_parameters(function))

    def __bool__(self) -> bool:
        return bool(self._positions or self._names)

    @property
    def argnums(self) -> tuple[int, ...]:
        """All positions, of names too, from 0 on."""
        return tuple(sorted(self._positions))

    @property
    def argnames(self) -> tuple[str, ...]:
        """All names, of positions too."""
        return tuple(sorted(self._names))

    def others(self, option: str, given: Any) -> tuple[int, ...]:
        """Return where arguments stand among those that are not static.

        Args:
            option: of qjit, for errors.
            given: their positions among all arguments.

        Raises:
            TypeError: for what is no position.
            ValueError: for a position that is static, or below 0.
        """
        chosen = positions(option, given)
        for position in chosen:
            if position in self._positions or position < 0:
                raise ValueError(
                    f"qjit of {self._where}: {option} has {position}, which is static or below 0. "
                    "Name arguments of the program, from 0 on."
                )
        return tuple(p - sum(static < p for static in self._positions) for p in chosen)

    def names_of_others(self, function: Callable[..., Any]) -> list[str]:
        """Return the names of the arguments with a position that are not static."""
        positional = [p.name for p in _parameters(function) if p.kind in _POSITIONAL]
        return [name for i, name in enumerate(positional) if i not in self._positions]

    def _complete(self, parameters: list[inspect.Parameter]) -> None:
        positional = [p for p in parameters if p.kind in _POSITIONAL]
        kinds = {p.kind for p in parameters}
        for position in sorted(self._positions):
            index = position + len(positional) if position < 0 else position
            if index < 0 or (index >= len(positional) and _VARIADIC[0] not in kinds):
                raise ValueError(
                    f"qjit of {self._where}: static_argnums has {position}, and the function has "
                    f"{len(positional)} arguments with a position."
                )
            self._positions ^= {position, index} if position != index else set()
            if index < len(positional) and positional[index].kind is not _POSITIONAL[0]:
                self._names.add(positional[index].name)
        known = [p.name for p in parameters if p.kind not in _VARIADIC]
        for name in sorted(self._names):
            if name not in known and _VARIADIC[1] not in kinds:
                raise ValueError(
                    f"qjit of {self._where}: static_argnames has '{name}', and the arguments "
                    f"of the function are {', '.join(known) or 'none'}."
                )
        self._positions |= {i for i, p in enumerate(positional) if p.name in self._names}

    def split(self, args: Any, kwargs: Any) -> tuple["Static", Any, Any]:
        """Return the static arguments, and the others.

        Raises:
            ValueError: for a static argument that is not hashable.
        """
        static: dict[int | str, Any] = {i: args[i] for i in self._positions if i < len(args)}
        static |= {name: kwargs[name] for name in self._names if name in kwargs}
        for key, value in static.items():
            self._check_hashable(key, value)
        args = tuple(arg for i, arg in enumerate(args) if i not in self._positions)
        kwargs = {name: value for name, value in kwargs.items() if name not in self._names}
        return Static(static), args, kwargs

    def _check_hashable(self, key: int | str, value: Any) -> None:
        try:
            hash(value)
        except TypeError as error:
            which = f"{key}" if isinstance(key, int) else f"'{key}'"
            raise ValueError(
                f"qjit of {self._where}: the static argument {which} is of type "
                f"{type(value).__name__}, which cannot be hashed ({error}). The program is looked "
                "up by it: pass a tuple in place of a list or an array, or give its class a "
                "__hash__."
            ) from error


def positions(option: str, given: Any) -> tuple[int, ...]:
    """Return the positions of arguments that an option of qjit names.

    Raises:
        TypeError: for what is none.
    """
    try:
        if given is None:
            return ()
        if not isinstance(given, Iterable):
            return (operator.index(given),)
        return tuple(map(operator.index, given))
    except TypeError as error:
        raise TypeError(
            f"qjit: {option} takes positions of arguments, as 1 or (0, 2), and is {given!r}."
        ) from error


def names(option: str, given: Any) -> tuple[str, ...]:
    """Return the names of arguments that an option of qjit names.

    Raises:
        TypeError: for what is none.
    """
    given = () if given is None else given
    listed = (given,) if isinstance(given, str) else given
    if isinstance(listed, Iterable):
        listed = tuple(listed)
        if all(isinstance(name, str) for name in listed):
            return listed
    raise TypeError(
        f"qjit: {option} takes names of arguments, as 'n' or ('n', 'm'), and is {given!r}."
    )


class Static:
    """Static arguments of one call; equal ones run the same program.

    Hashes are compared as they were at the call, so that an object which changes, and its hash
    with it, is another argument.
    """

    __slots__ = ("_hash", "_key", "_values")

    def __init__(self, values: dict[int | str, Any]) -> None:
        self._values = values
        self._key = tuple(
            (key, type(value), hash(value), value)
            for key, value in sorted(values.items(), key=lambda item: str(item[0]))
        )
        self._hash = hash(tuple((key, hash_) for key, _, hash_, _ in self._key))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and self._key == other._key

    def merge(self, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Put the static arguments back between the others."""
        rest = iter(args)
        positions = {key for key in self._values if isinstance(key, int)}
        merged = tuple(
            self._values[index] if index in positions else next(rest)
            for index in range(len(args) + len(positions))
        )
        named = {key: value for key, value in self._values.items() if isinstance(key, str)}
        return merged, {**kwargs, **named}


NO_STATIC = Static({})
# To JAX they are structure of the arguments, so it tells programs apart by them.
jax.tree_util.register_pytree_node(Static, lambda static: ((), static), lambda static, _: static)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):
        # Some functions written in C do not say.
        unknown = inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)
        return [unknown, inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)]


class DeclaredSignature:
    """The types that a function's annotations declare for its arguments.

    Attributes:
        args: shapes and dtypes in the structure of the arguments.
    """

    def __init__(self, name: str, signature: inspect.Signature, args: tuple[Any, ...]) -> None:
        self.args = args
        self._name = name
        self._signature = signature
        self._leaves, self._tree = jax.tree.flatten(args)

    def __str__(self) -> str:
        return describe(self._leaves)

    def promote(self, args: Any, kwargs: Any) -> Any:
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
        if tree != self._tree:
            return None
        promoted = []
        for leaf, declared in zip(leaves, self._leaves, strict=True):
            if not _is_of_type(leaf, declared.dtype):
                if not _promotes(leaf, declared.dtype):
                    return None
                convert = jnp.asarray if isinstance(leaf, jax.Array) else np.asarray
                leaf = convert(leaf, declared.dtype)
            if leaf.shape != declared.shape:
                return None
            promoted.append(leaf)
        return jax.tree.unflatten(tree, promoted)


def _is_of_type(leaf: Any, dtype: Any) -> bool:
    if isinstance(leaf, jax.Array) and leaf.weak_type:
        return False
    return isinstance(leaf, jax.Array | np.ndarray | np.generic) and leaf.dtype == dtype


def _promotes(leaf: Any, dtype: Any) -> bool:
    return jnp.promote_types(jnp.result_type(leaf), dtype) == dtype


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
        if parameter.kind not in _POSITIONAL or parameter.name not in hints:
            return None
        try:
            avals, tree = result_avals(function, hints[parameter.name], narrows=True)
        except ResultTypeError:
            return None
        specs = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
        args.append(jax.tree.unflatten(tree, specs))
    return DeclaredSignature(function_name(function), signature, tuple(args))


def check_arrays(where: str, names: Sequence[str], args: Any, kwargs: Any) -> None:
    """Refuse arguments that are no arrays.

    Args:
        where: the compiled function and its line.
        names: of the arguments with a position.
        args: these arguments.
        kwargs: arguments by name.

    Raises:
        TypeError: naming the argument, or its part.
    """
    for path, leaf in jax.tree_util.tree_leaves_with_path((args, kwargs)):
        try:
            type_ = jax.typeof(leaf)
        except TypeError:
            raise TypeError(
                f"{where}: the argument {_leaf_name(names, path)} is {described(leaf)}. "
                f"{advice(leaf)}"
            ) from None
        if not isinstance(type_, jax.core.ShapedArray):
            raise TypeError(
                f"{where}: the argument {_leaf_name(names, path)} is a {type_}, which is memory of "
                "JAX's that another program changes in place. Pass its value, ref[...], and return "
                "the new one."
            )


def result_arrays(where: str, result: Any) -> tuple[list[Any], Any]:
    """Return the leaves of what a traced function returned, as arrays, and its structure.

    Args:
        where: the compiled function and its line.
        result: a pytree.

    Raises:
        TypeError: naming the part that is no array.
    """
    paths, structure = jax.tree_util.tree_flatten_with_path(result)
    arrays = []
    for path, leaf in paths:
        try:
            arrays.append(_as_array(leaf))
        except TypeError:
            part = jax.tree_util.keystr(path)
            raise TypeError(
                f"{where}: the result{part} is {described(leaf)}. "
                "A program returns arrays, numbers, and pytrees of them."
            ) from None
    return arrays, structure


def _as_array(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray | np.generic):
        jax.typeof(leaf)  # Refuses a dtype that JAX does not have.
    return leaf if hasattr(leaf, "dtype") else jnp.asarray(leaf)


def leaf_signature(names: Sequence[str], args: Any, kwargs: Any) -> inspect.Signature:
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
    """Return the shapes and dtypes of arrays, in the structure of these."""

    def type_of(leaf: Any) -> jax.ShapeDtypeStruct:
        aval = jax.typeof(leaf)
        return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)

    return jax.tree.map(type_of, arguments)


def describe(leaves: Iterable[Any]) -> str:
    """Describe array arguments by dtype and shape."""
    return ", ".join(f"{jnp.result_type(x)}[{','.join(map(str, jnp.shape(x)))}]" for x in leaves)
