"""What differs between the arguments of a call and the types that a program was compiled for."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax

from bellhop.arguments.flat_tree import FlatTree, describe_structure

# More differences than these are not listed.
_MOST = 4


def describe_arguments(
    names: Sequence[str], args: Sequence[FlatTree], kwargs: Mapping[str, FlatTree]
) -> str:
    """Describe the types of arguments by name, as in ``x: float64[3], k['a']: int64[]``.

    Args:
        names: names of the positional parameters; further arguments are ``args[2]``.
        args: positional arguments or types, each flattened.
        kwargs: keyword arguments or types, each flattened.

    Returns:
        the text; ``no arrays`` where there are none.
    """
    parts = [
        f"{_leaf_text(name, flat, number)}: {_type_in_words(leaf)}"
        for name, flat in _by_name(names, args, kwargs).items()
        for number, leaf in enumerate(flat.leaves)
    ]
    return ", ".join(parts) or "no arrays"


def find_mismatch(
    names: Sequence[str],
    expected: tuple[Sequence[FlatTree], Mapping[str, FlatTree]],
    given: tuple[Sequence[FlatTree], Mapping[str, FlatTree]],
) -> str | None:
    """Describe how the arguments of a call differ from the expected types.

    Weak types are equal to strong ones, as they are for JAX's compiled functions.

    Args:
        names: names of the positional parameters.
        expected: types of the positional and of the keyword arguments, each flattened.
        given: arguments of the call, likewise.

    Returns:
        the differences in words; None where there are none.
    """
    wanted, passed = _by_name(names, *expected), _by_name(names, *given)
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
    if len(found) > _MOST:
        found = [*found[:_MOST], f"and {len(found) - _MOST} more"]
    return "; ".join(found) or None


def _by_name(
    names: Sequence[str], args: Sequence[FlatTree], kwargs: Mapping[str, FlatTree]
) -> dict[str, FlatTree]:
    named = [names[i] if i < len(names) else f"args[{i}]" for i in range(len(args))]
    return {**dict(zip(named, args, strict=True)), **kwargs}


def _differences(name: str, expected: FlatTree, given: FlatTree) -> list[str]:
    """Describe how one argument differs in structure, or else in the types of its leaves."""
    if expected.tree != given.tree:
        return [
            f"the argument {name} has the structure {describe_structure(given.tree)}, expected "
            f"{describe_structure(expected.tree)}"
        ]
    found = []
    for number, (wanted, leaf) in enumerate(zip(expected.leaves, given.leaves, strict=True)):
        aval = type_of(leaf)
        if (aval.shape, aval.dtype) != (wanted.shape, wanted.dtype):
            found.append(
                f"the argument {_leaf_text(name, given, number)} is {_type_in_words(leaf)}, "
                f"expected {_type_in_words(wanted)}"
            )
    return found


def _leaf_text(name: str, flat: FlatTree, number: int) -> str:
    return name + jax.tree_util.keystr(flat.paths[number])


def type_of(leaf: Any) -> Any:
    """Return what has the shape and the dtype of an array, or of the type of one.

    Raises:
        TypeError: for any other value.
        OverflowError: for an integer that no type of JAX's holds.
    """
    is_type = isinstance(leaf, jax.ShapeDtypeStruct | jax.stages.ArgInfo | jax.core.ShapedArray)
    return leaf if is_type else jax.typeof(leaf)


def _type_in_words(leaf: Any) -> str:
    """Return dtype and shape, and the Python type of a number that JAX types weakly."""
    aval = type_of(leaf)
    text = f"{aval.dtype}[{','.join(map(str, aval.shape))}]"
    if isinstance(leaf, bool | int | float | complex) and not hasattr(leaf, "dtype"):
        return f"{text} (a Python {type(leaf).__name__})"
    return text
