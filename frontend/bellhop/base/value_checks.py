"""Checks of arguments and results that JAX cannot flatten, or whose leaves JAX does not see."""

import sys
from collections.abc import Sequence

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
    """
    # A program without PennyLane has no measurements.
    pennylane = sys.modules.get("pennylane.measurements")
    measurement_type = getattr(pennylane, "MeasurementProcess", None)
    if measurement_type is None:
        return

    def is_measurement(value: object) -> bool:
        return isinstance(value, measurement_type)

    for leaf in jax.tree.leaves(result, is_leaf=is_measurement):
        if is_measurement(leaf):
            # A QNode records the gates of the function that it runs.
            if sys.modules["pennylane"].QueuingManager.recording():
                raise CompileError(
                    f"{where}: the result is the measurement {leaf!r}, expected arrays. A QNode "
                    "runs this function, whose gates the QNode cannot see. Swap the decorators: "
                    "@qml.qnode(device) stands directly above the quantum function, and "
                    "@bellhop.qjit above @qml.qnode."
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
        _check_keys(f"{where}: the argument {name}", argument)
    for name, argument in kwargs.items():
        _check_keys(f"{where}: the argument {name}", argument)


def _check_keys(named: str, value: object) -> None:
    """Raise `TypeError` if a value contains a dictionary whose keys cannot be sorted.

    Args:
        named: function and argument that contain `value`, for the error.
        value: any object; dictionaries, lists and tuples in it are searched.
    """
    if isinstance(value, dict):
        try:
            sorted(value)
        except TypeError:
            keys = ", ".join(map(repr, value))
            raise TypeError(
                f"{named} is a dictionary with the keys {keys}, which cannot be sorted. Use keys "
                "of one type, such as strings."
            ) from None
        for key, part in value.items():
            _check_keys(f"{named}[{key!r}]", part)
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            _check_keys(f"{named}[{index}]", part)
