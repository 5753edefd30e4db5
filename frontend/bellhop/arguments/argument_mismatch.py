"""Descriptions of how a call's arguments differ from a program's signature."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax

from bellhop.arguments.flat_tree import FlatTree
from bellhop.arguments.structure_difference import describe_structures

# An error lists at most this number of differences.
_MAX_LISTED = 4


def describe_arguments(
    names: Sequence[str], args: Sequence[FlatTree], kwargs: Mapping[str, FlatTree]
) -> str:
    """Describe argument types by name, as in ``x: float64[3], k['a']: int64[]``.

    Args:
        names: names of the positional parameters; further arguments are ``args[2]``.
        args: positional arguments or their types, each flattened.
        kwargs: keyword arguments or their types, each flattened.

    Returns:
        the description; ``no arrays`` if the arguments have no leaves.
    """
    parts = [
        f"{_format_leaf_name(name, flat, index)}: {_format_type(leaf)}"
        for name, flat in _map_names(names, args, kwargs).items()
        for index, leaf in enumerate(flat.leaves)
    ]
    return ", ".join(parts) or "no arrays"


def find_mismatch(
    names: Sequence[str],
    expected: tuple[Sequence[FlatTree], Mapping[str, FlatTree]],
    given: tuple[Sequence[FlatTree], Mapping[str, FlatTree]],
) -> str | None:
    """Describe how the arguments of a call differ from the expected types.

    For example ``the argument x is float64[3], expected float64[2]``. Weak types are equal to
    strong types, as in JAX's compiled functions.

    Args:
        names: names of the positional parameters; further arguments are named ``args[2]``.
        expected: types of the positional and of the keyword arguments, each flattened.
        given: positional and keyword arguments of the call, each flattened.

    Returns:
        up to four differences, joined by ``"; "``, and then ``and N more`` if there are more; None
        if there are none.
    """
    wanted, passed = _map_names(names, *expected), _map_names(names, *given)
    by_position = set(list(wanted)[: len(expected[0])])
    passed_by_position = set(list(passed)[: len(given[0])])
    found = []
    for name in [*wanted, *(name for name in passed if name not in wanted)]:
        if name not in passed:
            found.append(f"the argument {name} is missing")
        elif name not in wanted:
            found.append(f"there is an argument {name}, which is not expected")
        elif (name in by_position) != (name in passed_by_position):
            how = "by position" if name in by_position else "by keyword"
            found.append(f"the argument {name} is expected {how}")
        else:
            found += _differences(name, wanted[name], passed[name])
    if len(found) > _MAX_LISTED:
        found = [*found[:_MAX_LISTED], f"and {len(found) - _MAX_LISTED} more"]
    return "; ".join(found) or None


def _map_names(
    names: Sequence[str], args: Sequence[FlatTree], kwargs: Mapping[str, FlatTree]
) -> dict[str, FlatTree]:
    """Map argument names to a call's arguments; positional arguments come first.

    Positional arguments beyond `names` are named ``args[2]``.
    """
    named = [names[i] if i < len(names) else f"args[{i}]" for i in range(len(args))]
    return {**dict(zip(named, args, strict=True)), **kwargs}


def _differences(name: str, expected: FlatTree, given: FlatTree) -> list[str]:
    """Describe how one argument differs in structure, or in the types of its leaves.

    Args:
        name: name of the argument, for the descriptions.
        expected: types of its leaves.
        given: the argument that was passed.

    Returns:
        one clause for each leaf that differs, such as ``the argument x is float64[3], expected
        float64[2]``; a single clause if the structures differ; an empty list if nothing differs.
    """
    if expected.tree != given.tree:
        passed, wanted = describe_structures(given.tree, expected.tree)
        return [f"the argument {name} has the structure {passed}, expected {wanted}"]
    found = []
    for index, (wanted, leaf) in enumerate(zip(expected.leaves, given.leaves, strict=True)):
        aval = get_type(leaf)
        if (aval.shape, aval.dtype) != (wanted.shape, wanted.dtype):
            found.append(
                f"the argument {_format_leaf_name(name, given, index)} is {_format_type(leaf)}, "
                f"expected {_format_type(wanted)}"
            )
    return found


def _format_leaf_name(name: str, flat: FlatTree, index: int) -> str:
    return name + jax.tree_util.keystr(flat.paths[index])


def get_type(leaf: Any) -> Any:
    """Return the type of an array or a number; return a type unchanged.

    Args:
        leaf: an array, a scalar, or a type (``ShapeDtypeStruct``, ``ArgInfo``, ``ShapedArray``).

    Returns:
        an object with `shape` and `dtype`.

    Raises:
        TypeError: if `leaf` is none of these.
        OverflowError: if `leaf` is an integer that does not fit in any JAX type.
    """
    is_type = isinstance(leaf, jax.ShapeDtypeStruct | jax.stages.ArgInfo | jax.core.ShapedArray)
    return leaf if is_type else jax.typeof(leaf)


def _format_type(leaf: Any) -> str:
    """Format an array type as ``float64[3]``; add the Python type of a Python scalar.

    For example 1.5 gives ``float64[] (a Python float)``.
    """
    aval = get_type(leaf)
    text = f"{aval.dtype}[{','.join(map(str, aval.shape))}]"
    if isinstance(leaf, bool | int | float | complex) and not hasattr(leaf, "dtype"):
        return f"{text} (a Python {type(leaf).__name__})"
    return text
