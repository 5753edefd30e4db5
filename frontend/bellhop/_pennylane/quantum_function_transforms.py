"""PennyLane's transforms of quantum functions, which it keeps in a closure.

``qml.simplify(function)`` is a function that collects the gates of ``function`` in a queue of its
own and transforms them.  Programs have gates that no such queue collects: measurements in the
middle and loops.  So a QNode of it is taken for ``qml.simplify(QNode(function))``, which means the
same.

Versions: 0.45.
Upstream: an attribute of the transformed function that names its transform.
"""

import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pennylane as qml

_NAMES = ("obj", "transform", "targs", "tkwargs")


def split_transforms(
    function: Callable[..., Any],
) -> tuple[Callable[..., Any], list[tuple[Any, tuple[Any, ...], dict[str, Any]]]]:
    """Take PennyLane's transforms off a quantum function.

    Args:
        function: a quantum function, transformed or not.

    Returns:
        the function inside, and the transforms with their arguments, the first one first.
    """
    transforms: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
    while (parts := _transform_of(function)) is not None:
        function, transform, args, kwargs = parts
        transforms.insert(0, (transform, args, kwargs))
    return function, transforms


def _transform_of(function: Any) -> tuple[Any, ...] | None:
    """Return function, transform and arguments of a transformed function; None for others."""
    if not isinstance(function, FunctionType) or function.__closure__ is None:
        return None
    module = sys.modules[type(qml.compile).__module__]
    made_by = getattr(module, "apply_to_callable", None)
    if made_by is None or function.__code__ not in made_by.__code__.co_consts:
        return None
    cells = zip(function.__code__.co_freevars, function.__closure__, strict=True)
    values = {name: cell.cell_contents for name, cell in cells}
    if not all(name in values for name in _NAMES):
        return None
    found = tuple(values[name] for name in _NAMES)
    transform = found[1]
    if transform.is_informative or transform.is_final_transform or transform.tape_transform is None:
        # Its result is not that of the function.
        return None
    return found
