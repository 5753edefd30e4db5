"""Allow traced exponents in ``qml.pow(gate, z, lazy=False)``.

In a program, with a traced ``z``::

    qml.pow(qml.X(0), z, lazy=False)    without this patch a tracer error

Replaced: ``qml.pow``, under each of its names in PennyLane.
Versions: 0.45.
Upstream: ``pow`` methods of gates that do not compare a traced exponent with numbers.
Issue: none reported.
Installed: with ``qnode_calls``.
Test: ``test_computed_powers.py``.
"""

from collections.abc import Callable
from typing import Any

import pennylane as qml

from bellhop._patching import original, patch

Make = Callable[[Callable[..., Any]], Callable[..., Any]]


@patch("qml.pow", "exponents may be traced")
def patch_pow(make: Make) -> None:
    """Replace ``qml.pow``.

    Args:
        make: takes the original, returns the replacement.
    """
    power = make(original(qml, "pow"))
    for module in (qml, qml.ops, qml.ops.op_math):
        if hasattr(module, "pow"):
            module.pow = power
