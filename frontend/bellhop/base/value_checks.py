"""Checks of arguments and results that JAX cannot flatten, or whose leaves JAX does not see."""

import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import jax

from bellhop.base.types import Args, Kwargs, PyTree
from bellhop.errors import CompileError


def check_no_measurements(where: str, result: PyTree) -> None:
    """Raise an error if a traced function returned a PennyLane measurement.

    A quantum function that no QNode runs has applied no gates, and JAX takes its measurements for
    pytrees without leaves.

    Args:
        where: the function and its line, for the error.

    Raises:
        CompileError: naming the function, the measurement, and the decorator that is missing; or
            the decorators to swap, if a QNode runs the traced function.
        TypeError: if the result contains a dictionary whose keys cannot be sorted.
    """
    # A program without PennyLane has no measurements.
    pennylane = sys.modules.get("pennylane.measurements")
    measurement_type = getattr(pennylane, "MeasurementProcess", ())

    def is_measurement(value: object) -> bool:
        return isinstance(value, measurement_type)

    leaves, _ = flatten_sortable(f"{where}: the result", result, is_measurement)
    for leaf in leaves:
        if is_measurement(leaf):
            # A QNode records the gates of the function that it runs.
            if sys.modules["pennylane"].QueuingManager.recording():
                raise CompileError(
                    f"{where}: the result is the measurement {leaf!r}, expected arrays. A QNode "
                    "runs this function, whose gates the QNode cannot see. Swap the decorators: "
                    "@qml.qnode(device) stands directly above the quantum function, and "
                    "others, such as @bellhop.qjit, above @qml.qnode."
                )
            raise CompileError(
                f"{where}: the result is the measurement {leaf!r}, expected arrays. Make the "
                "quantum function a QNode: put the decorator @qml.qnode(device) above it."
            )


def check_dictionary_keys(where: str, names: Sequence[str], args: Args, kwargs: Kwargs) -> None:
    """Raise an error if an argument contains a dictionary whose keys cannot be sorted.

    JAX sorts the keys of a dictionary, so that the order of insertion does not matter.

    Args:
        where: the compiled function and its line, for the error.
        names: names of the positional parameters; further arguments are named ``args[2]``.
        args: the positional arguments, pytrees.
        kwargs: the keyword arguments, pytrees.

    Raises:
        TypeError: names the argument, or its part, and the keys.
    """
    for index, argument in enumerate(args):
        name = names[index] if index < len(names) else f"args[{index}]"
        check_keys(f"{where}: the argument {name}", argument)
    for name, argument in kwargs.items():
        check_keys(f"{where}: the argument {name}", argument)


def flatten_sortable(
    named: str, tree: PyTree, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Any], Any]:
    """Flatten a pytree, with an error that names a dictionary which JAX cannot sort.

    Args:
        named: function and value, such as ``"qjit of 'f' (file:line): the result"``, for errors.
        tree: any pytree.
        is_leaf: as in ``jax.tree.flatten``.

    Returns:
        the leaves and the ``PyTreeDef``.

    Raises:
        TypeError: if the pytree contains a dictionary whose keys cannot be sorted; names the keys.
    """
    try:
        return jax.tree.flatten(tree, is_leaf=is_leaf)
    except Exception:
        check_keys(named, tree)
        raise


def check_keys(named: str, value: object) -> None:
    """Raise `TypeError` if a pytree contains a dictionary whose keys cannot be sorted.

    Called for a value that JAX could not flatten.

    Args:
        named: function and value, for the error.
        value: any object; the children of dictionaries, sequences and registered classes are
            searched.
    """
    # JAX keeps the order of an `OrderedDict`, and other subclasses of `dict` are leaves.
    if type(value) in (dict, defaultdict):
        assert isinstance(value, dict)
        try:
            sorted(value)
        except Exception:
            keys = ", ".join(map(repr, value))
            raise TypeError(
                f"{named} is a dictionary with the keys {keys}, which cannot be sorted. Use keys "
                "of one type that Python sorts, such as strings."
            ) from None
    for part, child in _find_children(value):
        check_keys(f"{named}{part}", child)


def _find_children(value: object) -> list[tuple[str, Any]]:
    """Return the children of a pytree's root, each with its subscript or attribute as text."""
    if isinstance(value, dict):
        return [(f"[{key!r}]", child) for key, child in value.items()]
    if isinstance(value, list | tuple):
        return [(f"[{index}]", child) for index, child in enumerate(value)]
    children = jax.tree_util.default_registry.flatten_one_level(value)
    if children is None:
        return []
    attributes = {id(child): f".{name}" for name, child in getattr(value, "__dict__", {}).items()}
    return [
        (attributes.get(id(child), f"[{index}]"), child) for index, child in enumerate(children[0])
    ]
