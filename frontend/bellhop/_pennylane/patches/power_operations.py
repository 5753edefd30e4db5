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

import functools
from typing import Any

import jax
import pennylane as qml

from bellhop._patching import original, patch, replace


@patch("qml.pow", "exponents may be traced")
def patch_pow() -> None:
    """Replace ``qml.pow``, so that a traced exponent gives a symbolic ``Pow``.

    With ``lazy=False`` PennyLane would compare the exponent with numbers, which fails for tracers.
    """
    uncompiled = original(qml, "pow")

    @functools.wraps(uncompiled)
    def power(base: Any, z: Any = 1, lazy: bool = True, id: str | None = None) -> Any:
        """Call PennyLane's ``pow``, with ``lazy=True`` if the exponent `z` is traced."""
        # A lazy power is decomposed later, in `circuits/gates/traced_powers.py`.
        return uncompiled(base, z, lazy=lazy or isinstance(z, jax.core.Tracer), id=id)

    for module in (qml, qml.ops, qml.ops.op_math):
        if hasattr(module, "pow"):
            replace(module, "pow", power)
