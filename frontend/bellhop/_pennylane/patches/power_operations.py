"""``qml.pow(gate, z, lazy=False)`` with an exponent that the program computes.

In a program, with ``z`` computed in it::

    qml.pow(qml.X(0), z, lazy=False)    without this patch JAX's error for tracers

Replaced: ``qml.pow``, under each of its names in PennyLane.
Versions: 0.45.
Upstream: ``pow`` methods of gates that do not compare a traced exponent with numbers.
Installed: with ``qnode_calls``.
Test: ``test_computed_powers.py``.
"""

from collections.abc import Callable
from typing import Any

import pennylane as qml

from bellhop._patching import original, patch

Make = Callable[[Callable[..., Any]], Callable[..., Any]]


@patch("qml.pow", "programs compute exponents")
def make_powers_by(make: Make) -> None:
    """Let ``qml.pow`` be what ``make`` makes of PennyLane's own."""
    made = make(original(qml, "pow"))
    for module in (qml, qml.ops, qml.ops.op_math):
        if hasattr(module, "pow"):
            module.pow = made
