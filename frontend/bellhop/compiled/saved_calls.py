"""Matching of calls to saved programs, and arrangement of their arguments."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from bellhop.archive.archive import SavedProgram
from bellhop.archive.call_signatures import Shown
from bellhop.archive.schema import Malformed
from bellhop.arguments.accepted_arguments import describe_mismatch
from bellhop.arguments.argument_mismatch import describe_arguments, find_mismatch, get_type
from bellhop.arguments.flat_tree import FlatTree, flatten_call
from bellhop.arguments.signature import DeclaredSignature
from bellhop.base.types import Args

# Key of an argument: its parameter's name, or its index in *args.
_Key = str | int


@dataclass(frozen=True)
class _CallForm:
    """How a saved program's arguments are passed: by position or by keyword.

    A key is a parameter's name, or the index of an argument in ``*args``.

    Attributes:
        positional: keys of the positional arguments, in order.
        keywords: names of the keyword arguments.
    """

    positional: tuple[_Key, ...]
    keywords: frozenset[str]

    @property
    def keys(self) -> frozenset[_Key]:
        """Keys of all arguments, however they are passed."""
        return self.keywords.union(self.positional)


class SavedCalls:
    """Finds the saved program for a call of a loaded function; arranges its arguments.

    ``f(1.0, scale=2.0)``, ``f(x=1.0, scale=2.0)`` and ``f(1.0, 2.0)`` are the same call, and so is
    ``f(1.0)`` if 2.0 is the default of ``scale``; a saved program takes one of these forms.

    Args:
        where: description of the function and its file, for errors.
        signature: Python signature of the function; None if it is unknown.
        programs: all programs of the file.
    """

    def __init__(
        self, where: str, signature: inspect.Signature | None, programs: Sequence[SavedProgram]
    ) -> None:
        self._where = where
        self._signature = signature
        self._programs = programs
        self._names = _positional_names(signature)
        self._types = [_get_argument_types(program) for program in programs]
        self._forms = [_CallForm(self._keys(len(args)), frozenset(kw)) for args, kw in self._types]
        by_keys: dict[frozenset[_Key], set[_CallForm]] = {}
        for form in self._forms:
            by_keys.setdefault(form.keys, set()).add(form)
        # Calls of these forms are passed on unchanged.
        self._known = {
            (len(form.positional), form.keywords)
            for form in self._forms
            if len(by_keys[form.keys]) == 1
        }
        self._known_counts = {count for count, keywords in self._known if not keywords}

    def arrange(self, args: Args, kwargs: dict[str, Any]) -> tuple[Args, dict[str, Any]]:
        """Rearrange a call's arguments into the form that the saved program takes.

        For a program that was saved from ``f(1.0, scale=2.0)``, a call ``f(x=3.0, scale=4.0)``
        gives ``((3.0,), {"scale": 4.0})``.

        Returns:
            the positional and keyword arguments: in the form of the program that has their types,
            else of the first program that takes these parameters. They are unchanged if they have
            the form of a saved program, if no program takes these parameters, or if the Python
            signature is unknown.

        Raises:
            TypeError: if they have to be rearranged, and the function's signature does not accept
                them.
        """
        if not kwargs and len(args) in self._known_counts:
            return args, kwargs
        if self._signature is None or (len(args), frozenset(kwargs)) in self._known:
            return args, kwargs
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            fault = describe_mismatch(self._signature, kwargs, error)
            raise TypeError(
                f"{self._where}: the arguments do not match: {fault}. The function takes "
                f"{self._signature}."
            ) from None
        by_key = self._map_by_key(bound)
        best: tuple[Args, dict[str, Any]] | None = None
        for form, types in zip(self._forms, self._types, strict=True):
            arranged = self._arrange_as(form, by_key)
            if arranged is None:
                continue
            if _types_match(types, *flatten_call(*arranged)):
                return arranged
            best = best or arranged
        return best or (args, kwargs)

    def accepts(self, args: Args, kwargs: dict[str, Any]) -> bool:
        """Return whether a saved program takes these arguments without rearranging them.

        True if a program was saved from a call with the same number of positional arguments, the
        same keyword names, and the same structures, shapes and dtypes.
        """
        flat = flatten_call(args, kwargs)
        return any(_types_match(types, *flat) for types in self._types)

    def get_declared_signature(self, number: int, name: str) -> DeclaredSignature:
        """Return the argument types that the saved function's annotations declared.

        Args:
            number: index of the saved program that has these types.
            name: name of the function, for errors.

        Raises:
            Malformed: if that program takes keyword arguments, or the file has no signature.
        """
        if self._signature is None:
            raise Malformed("the file declares types of arguments, but no signature with names")
        if self._types[number][1]:
            raise Malformed("the file's program for the declared types takes keyword arguments")
        return DeclaredSignature(name, self._signature, self._types[number][0])

    def find(self, args: Sequence[FlatTree], kwargs: Mapping[str, FlatTree]) -> SavedProgram:
        """Return the saved program that was compiled for the types of these arguments.

        Each argument is a flattened pytree (``FlatTree``) of values, tracers or types.

        Raises:
            TypeError: if no program has these types; the message names the differences.
        """
        for program, types in zip(self._programs, self._types, strict=True):
            if _types_match(types, args, kwargs):
                return program
        if len(self._programs) == 1:
            found = find_mismatch(self._names, self._types[0], (args, kwargs))
        else:
            found = f"the function is called with ({describe_arguments(self._names, args, kwargs)})"
        raise TypeError(
            f"{self._where}: {found}. {self.describe_saved_types()} Pass arguments of these "
            "types, or call the original function with the new arguments before f.save(path), "
            "which writes a program for each signature."
        )

    def describe_saved_types(self) -> str:
        """Return a sentence with the argument types of all saved programs, for an error."""
        saved = "; ".join(f"({describe_arguments(self._names, *types)})" for types in self._types)
        return f"The file has programs for the arguments {saved}."

    def _keys(self, count: int) -> tuple[_Key, ...]:
        """Return the keys of positional arguments: names, then indices in ``*args``.

        For ``f(x, *args)`` and three arguments: ``("x", 0, 1)``.

        Args:
            count: number of positional arguments.
        """
        return (*self._names[:count], *range(count - len(self._names)))

    def _map_by_key(self, bound: inspect.BoundArguments) -> dict[_Key, Any]:
        """Return the arguments of a bound call by key, without omitted defaults."""
        given: dict[_Key, Any] = dict(zip(self._keys(len(bound.args)), bound.args, strict=True))
        given.update(bound.kwargs.items())
        return given

    def _arrange_as(
        self, form: _CallForm, given: dict[_Key, Any]
    ) -> tuple[Args, dict[str, Any]] | None:
        """Arrange a call's arguments in the form that one saved program takes.

        Missing arguments get their defaults; surplus arguments must equal their defaults, which the
        program contains as constants.

        Args:
            form: the form of the saved program's arguments.
            given: the arguments of the call, by parameter name or index in ``*args``.

        Returns:
            ``(args, kwargs)``, or None if the arguments do not match.
        """
        values = dict(given)
        assert self._signature is not None
        parameters: dict[_Key, inspect.Parameter] = dict(self._signature.parameters.items())
        for key in form.keys - values.keys():
            default = parameters[key].default if key in parameters else inspect.Parameter.empty
            if default is inspect.Parameter.empty or isinstance(default, Shown):
                return None
            values[key] = default
        for key in values.keys() - form.keys:
            # The program contains the default as a constant.
            if key not in parameters or not _is_equal(values[key], parameters[key].default):
                return None
        args = tuple(values[key] for key in form.positional)
        return args, {name: values[name] for name in form.keywords}


def _positional_names(signature: inspect.Signature | None) -> list[str]:
    """Return the names of the parameters that can be passed by position; none without signature."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = () if signature is None else signature.parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind in kinds]


def _get_argument_types(program: SavedProgram) -> tuple[tuple[FlatTree, ...], dict[str, FlatTree]]:
    """Return the types of a program's arguments, each argument as a ``FlatTree``.

    Returns:
        the positional arguments, and the keyword arguments by name; the leaves are
        ``ShapeDtypeStruct`` objects.
    """
    leaves = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in program.in_avals]
    args_tree, kwargs_tree = program.in_tree.children()
    names = kwargs_tree.node_data()[1]
    flats = []
    for tree in (*args_tree.children(), *kwargs_tree.children()):
        own, leaves = leaves[: tree.num_leaves], leaves[tree.num_leaves :]
        flats.append(FlatTree.flatten(jax.tree.unflatten(tree, own)))
    count = len(args_tree.children())
    return tuple(flats[:count]), dict(zip(names, flats[count:], strict=True))


def _types_match(
    types: tuple[Sequence[FlatTree], Mapping[str, FlatTree]],
    args: Sequence[FlatTree],
    kwargs: Mapping[str, FlatTree],
) -> bool:
    """Return whether arguments have a saved program's structure, shapes and dtypes.

    False also for leaves that are not arrays.

    Args:
        types: types of the program's positional arguments, and of its keyword arguments.
        args: positional arguments of a call: values, tracers or types, each flattened.
        kwargs: keyword arguments of the call, as `args`.
    """
    wanted, wanted_tree = jax.tree.flatten(types)
    leaves, tree = jax.tree.flatten((tuple(args), dict(kwargs)))
    if wanted_tree != tree:
        return False
    try:
        avals = list(map(get_type, leaves))
    except (TypeError, OverflowError):
        # Values that are not arrays raise an error later.
        return False
    return all(
        (aval.shape, aval.dtype) == (expected.shape, expected.dtype)
        for aval, expected in zip(avals, wanted, strict=True)
    )


def _is_equal(value: object, default: object) -> bool:
    """Return whether an argument equals a default that is a Python scalar or string.

    Both must have the same type, ``bool``, ``int``, ``float`` or ``str``: an array is never equal.
    """
    return (
        type(value) is type(default)
        and isinstance(value, bool | int | float | str)
        and (value == default)
    )
