"""Extraction of PennyLane transforms from transformed quantum functions.

``qml.simplify(function)`` returns a closure that queues the gates of ``function`` and transforms
them. Programs contain operations that PennyLane cannot queue: mid-circuit measurements and loops.
So Bellhop treats a QNode of such a closure as ``qml.simplify(QNode(function))``, which is
equivalent.

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
    """Split a transformed quantum function into the inner function and its transforms.

    For example ``qml.simplify(f)`` gives ``(f, [(qml.simplify, (), {})])``.

    Args:
        function: a quantum function, transformed or not.

    Returns:
        the inner function, and ``(transform, args, kwargs)`` of each transform, in the order in
        which they are applied.
    """
    transforms: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
    while (parts := _find_transform(function)) is not None:
        function, transform, args, kwargs = parts
        transforms.insert(0, (transform, args, kwargs))
    return function, transforms


def _find_transform(function: Any) -> tuple[Any, ...] | None:
    """Find the outermost transform of a quantum function, such as ``qml.simplify(f)``.

    The transform is read from the closure that PennyLane returns.

    Returns:
        the inner function, the transform, its positional and its keyword arguments. None if
        `function` is not such a closure, or if the transform is informative, final, or does not
        transform tapes, so that its result is not a result of the inner function.
    """
    if not isinstance(function, FunctionType) or function.__closure__ is None:
        return None
    module = sys.modules[type(qml.compile).__module__]
    apply = getattr(module, "apply_to_callable", None)
    if apply is None or function.__code__ not in apply.__code__.co_consts:
        return None
    cells = zip(function.__code__.co_freevars, function.__closure__, strict=True)
    values = {name: cell.cell_contents for name, cell in cells}
    if not all(name in values for name in _NAMES):
        return None
    found = tuple(values[name] for name in _NAMES)
    transform = found[1]
    if transform.is_informative or transform.is_final_transform or transform.tape_transform is None:
        # The transform's result is not a result of the function.
        return None
    return found
