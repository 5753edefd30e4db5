"""Controlled operations whose control values the program computes.

In a program, with ``bit`` computed in it::

    qml.ctrl(qml.X, 0, control_values=[bit])(1)    without this patch JAX's error for tracers

Replaced: ``__new__`` of PennyLane's controlled operations.
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

# Operations that are written with values of their controls.
_CONTROLLED = ("MultiControlledX", "ControlledQubitUnitary", "ControlledOp", "Controlled")


@patch("PennyLane's controlled operations", "programs compute values of controls")
def make_controlled_by(make: Callable[[type, Make], Make]) -> None:
    """Let ``make`` say what makes operations of a class, given the class and its ``__new__``."""
    for name in _CONTROLLED:
        kind = original(qml.ops, name)
        kind.__new__ = make(kind, kind.__new__)
