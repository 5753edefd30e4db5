"""Allow traced control values in PennyLane's controlled operations.

In a program, with a traced ``bit``::

    qml.ctrl(qml.X, 0, control_values=[bit])(1)    without this patch a tracer error

Replaced: ``__new__`` of PennyLane controlled operations, and of the templates with control values,
``TemporaryAND`` and ``FlipSign``.
Versions: 0.45.
Upstream: operations that do not convert control values.
Issue: catalyst#1266, pennylane#9966.
Installed: with ``qnode_calls``.
Test: ``test_computed_controls.py``.
"""

from collections.abc import Callable
from typing import Any

import pennylane as qml

from bellhop._patching import original, patch, replace

Make = Callable[..., Any]

# Module of each operation, and the name of its argument with control values.
_CONTROLLED = {
    **dict.fromkeys(
        ("ControlledOp", "Controlled", "MultiControlledX", "ControlledQubitUnitary"),
        (qml.ops, "control_values"),
    ),
    "TemporaryAND": (qml, "control_values"),
    "FlipSign": (qml, "n"),
}


@patch("PennyLane's controlled operations", "control values may be traced")
def patch_controlled(make: Callable[[type, str, Make], Make]) -> None:
    """Replace ``__new__`` of controlled operations in PennyLane.

    Args:
        make: takes the class, the name of its argument with control values, and the original
            ``__new__``; returns the new ``__new__``, which supports traced control values.
    """
    for name, (module, values) in _CONTROLLED.items():
        kind = original(module, name)
        has_constructor = kind.__new__ is not object.__new__
        make_own = kind.__new__ if has_constructor else _make_from_object
        replace(kind, "__new__", make(kind, values, make_own))


def _make_from_object(cls: type, *_: Any, **__: Any) -> Any:
    """Create an uninitialized instance: the ``__new__`` of a class that has none."""
    # ``object.__new__`` accepts no arguments if the class defines ``__new__``.
    return object.__new__(cls)
