"""Controlled operations whose control values the program computes.

In a program, with ``bit`` computed in it::

    qml.ctrl(qml.X, 0, control_values=[bit])(1)    without this patch JAX's error for tracers

Replaced: ``__new__`` of PennyLane's controlled operations, and of the templates that act where
wires have given values, ``TemporaryAND`` and ``FlipSign``.
Versions: 0.45.
Upstream: control values that stay what they are until a device looks at them.
Installed: with ``qnode_calls``.
Test: ``test_computed_controls.py``.
"""

from collections.abc import Callable
from typing import Any

import pennylane as qml

from bellhop._patching import original, patch

Make = Callable[..., Any]

# Operations that are written with values of their controls, and the argument that has these.
_CONTROLLED = {
    **dict.fromkeys(
        ("ControlledOp", "Controlled", "MultiControlledX", "ControlledQubitUnitary"),
        (qml.ops, "control_values"),
    ),
    "TemporaryAND": (qml, "control_values"),
    "FlipSign": (qml, "n"),
}


@patch("PennyLane's controlled operations", "programs compute values of controls")
def patch_controlled(make: Callable[[type, str, Make], Make]) -> None:
    """Let ``make`` say what makes operations of a class.

    Args:
        make: takes the class, the name of the argument that has the values, and ``__new__``.
    """
    for name, (module, values) in _CONTROLLED.items():
        kind = original(module, name)
        has_own = kind.__new__ is not object.__new__
        kind.__new__ = make(kind, values, kind.__new__ if has_own else _make_from_object)


def _make_from_object(cls: type, *_: Any, **__: Any) -> Any:
    # That of ``object`` takes no arguments where a class has one of its own.
    return object.__new__(cls)
