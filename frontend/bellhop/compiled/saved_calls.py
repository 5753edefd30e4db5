"""The calls that saved programs take: arguments in the order in which each was saved."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from bellhop.archive.archive import SavedProgram
from bellhop.archive.call_signatures import Shown
from bellhop.archive.schema import Malformed
from bellhop.base.argument_mismatch import describe_arguments, find_mismatch, get_type
from bellhop.base.flat_tree import FlatTree, flatten_call
from bellhop.base.signature import DeclaredSignature
from bellhop.base.types import Args

# Of an argument: the name of its parameter, or its index among those of *args.
_Key = str | int


@dataclass(frozen=True)
class _CallForm:
    """How the arguments of a program were passed: keys of positional ones, names of the others."""

    positional: tuple[_Key, ...]
    keywords: frozenset[str]

    @property
    def keys(self) -> frozenset[_Key]:
        return self.keywords.union(self.positional)


class SavedCalls:
    """Finds the program of a call, and passes its arguments as that program takes them.

    ``f(1.0, scale=2.0)``, ``f(x=1.0, scale=2.0)`` and ``f(1.0, 2.0)`` are the same call, and so is
    ``f(1.0)`` where 2.0 is the default value of ``scale``.

    Args:
        where: the function and its file, for errors.
        signature: the function's; None where it is not known.
        programs: all programs of the file.
    """

    def __init__(
        self, where: str, signature: inspect.Signature | None, programs: Sequence[SavedProgram]
    ) -> None:
        self._where = where
        self._signature = signature
        self._programs = programs
        self._names = _positional_names(signature)
        self._types = [_types_of(program) for program in programs]
        self._forms = [_CallForm(self._keys(len(args)), frozenset(kw)) for args, kw in self._types]
        by_keys: dict[frozenset[_Key], set[_CallForm]] = {}
        for form in self._forms:
            by_keys.setdefault(form.keys, set()).add(form)
        # Calls with these arguments are taken as they are.
        self._known = {
            (len(form.positional), form.keywords)
            for form in self._forms
            if len(by_keys[form.keys]) == 1
        }
        self._known_counts = {count for count, keywords in self._known if not keywords}

    def arrange(self, args: Args, kwargs: dict[str, Any]) -> tuple[Args, dict[str, Any]]:
        """Return the arguments of a call as the program for it takes them.

        Args:
            args: positional arguments of the user.
            kwargs: keyword arguments of the user.

        Raises:
            TypeError: where the function does not take such arguments.
        """
        if not kwargs and len(args) in self._known_counts:
            return args, kwargs
        if self._signature is None or (len(args), frozenset(kwargs)) in self._known:
            return args, kwargs
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(
                f"{self._where}: the arguments do not match: {error}. It takes {self._signature}."
            ) from None
        given = self._by_key(bound)
        best: tuple[Args, dict[str, Any]] | None = None
        for form, types in zip(self._forms, self._types, strict=True):
            arranged = self._arranged(form, given)
            if arranged is None:
                continue
            if _is_for(types, *flatten_call(*arranged)):
                return arranged
            best = best or arranged
        return best or (args, kwargs)

    def take(self, args: Args, kwargs: dict[str, Any]) -> bool:
        """Tell whether there is a program for arguments as they are."""
        flat = flatten_call(args, kwargs)
        return any(_is_for(types, *flat) for types in self._types)

    def declared_by(self, number: int, name: str) -> DeclaredSignature:
        """Return the types that the function's annotations declare.

        Args:
            number: number of the program that has these types.
            name: name of the function, for errors.
        """
        if self._signature is None or self._types[number][1]:
            raise Malformed("its program for the declared types takes keyword arguments")
        return DeclaredSignature(name, self._signature, self._types[number][0])

    def find(self, args: Sequence[FlatTree], kwargs: Mapping[str, FlatTree]) -> SavedProgram:
        """Return the program for arguments, or for types of them.

        Raises:
            TypeError: where the file has none, naming what differs.
        """
        for program, types in zip(self._programs, self._types, strict=True):
            if _is_for(types, args, kwargs):
                return program
        saved = "; ".join(f"({describe_arguments(self._names, *types)})" for types in self._types)
        if len(self._programs) == 1:
            found = find_mismatch(self._names, self._types[0], (args, kwargs))
        else:
            found = f"it is called with ({describe_arguments(self._names, args, kwargs)})"
        raise TypeError(
            f"{self._where}: {found}. It was saved with programs for the arguments {saved}. Pass "
            "such arguments, or call the function with others before f.save(path), which writes a "
            "program for each signature."
        )

    def _keys(self, count: int) -> tuple[_Key, ...]:
        """Return the keys of so many positional arguments."""
        return (*self._names[:count], *range(count - len(self._names)))

    def _by_key(self, bound: inspect.BoundArguments) -> dict[_Key, Any]:
        given: dict[_Key, Any] = dict(zip(self._keys(len(bound.args)), bound.args, strict=True))
        given.update(bound.kwargs.items())
        return given

    def _arranged(
        self, form: _CallForm, given: dict[_Key, Any]
    ) -> tuple[Args, dict[str, Any]] | None:
        """Return arguments in the form of a program; None where the program has other ones."""
        values = dict(given)
        assert self._signature is not None
        parameters: dict[_Key, inspect.Parameter] = dict(self._signature.parameters.items())
        for key in form.keys - values.keys():
            default = parameters[key].default if key in parameters else inspect.Parameter.empty
            if default is inspect.Parameter.empty or isinstance(default, Shown):
                return None
            values[key] = default
        for key in values.keys() - form.keys:
            # The program has the default value as a constant.
            if key not in parameters or not _is_equal(values[key], parameters[key].default):
                return None
        args = tuple(values[key] for key in form.positional)
        return args, {name: values[name] for name in form.keywords}


def _positional_names(signature: inspect.Signature | None) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = () if signature is None else signature.parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind in kinds]


def _types_of(program: SavedProgram) -> tuple[tuple[FlatTree, ...], dict[str, FlatTree]]:
    leaves = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in program.in_avals]
    args_tree, kwargs_tree = program.in_tree.children()
    names = kwargs_tree.node_data()[1]
    flats = []
    for tree in (*args_tree.children(), *kwargs_tree.children()):
        own, leaves = leaves[: tree.num_leaves], leaves[tree.num_leaves :]
        flats.append(FlatTree.flatten(jax.tree.unflatten(tree, own)))
    count = len(args_tree.children())
    return tuple(flats[:count]), dict(zip(names, flats[count:], strict=True))


def _is_for(
    types: tuple[Sequence[FlatTree], Mapping[str, FlatTree]],
    args: Sequence[FlatTree],
    kwargs: Mapping[str, FlatTree],
) -> bool:
    wanted, wanted_tree = jax.tree.flatten(types)
    leaves, tree = jax.tree.flatten((tuple(args), dict(kwargs)))
    if wanted_tree != tree:
        return False
    try:
        avals = list(map(get_type, leaves))
    except (TypeError, OverflowError):
        # Values that are not arrays are refused where they are passed to the program.
        return False
    return all(
        (aval.shape, aval.dtype) == (of.shape, of.dtype)
        for aval, of in zip(avals, wanted, strict=True)
    )


def _is_equal(value: object, default: object) -> bool:
    return (
        type(value) is type(default)
        and isinstance(value, bool | int | float | str)
        and (value == default)
    )
