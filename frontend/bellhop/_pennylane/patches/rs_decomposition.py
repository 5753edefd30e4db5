"""Support Clifford+T decomposition of rotations with traced angles.

``qml.ops.rs_decomposition(qml.RZ(x, 0), epsilon)`` needs the value of ``x``, which is known only
when the program runs.

Replaced: ``rs_decomposition``, in the three modules from which PennyLane calls it.
Versions: 0.45.
Upstream: a branch for traced angles that is not tied to Catalyst (``is_qjit``).
Issue: none reported.
Installed: with ``qnode_calls``.
Test: ``test_runtime_transforms.py``.
"""

from collections.abc import Callable
from typing import Any

import pennylane as qml

from bellhop._patching import original, patch, replace

# PennyLane's implementation, for concrete angles.
decompose_value = original(qml.ops, "rs_decomposition")


@patch("qml.ops.rs_decomposition", "angles may be traced")
def patch_rs_decomposition(rs_decomposition: Callable[..., Any]) -> None:
    """Replace ``qml.ops.rs_decomposition`` in all modules that call it.

    Args:
        rs_decomposition: the replacement, which supports traced angles.
    """
    for module in (qml.ops, qml.ops.op_math, qml.ops.op_math.decompositions):
        original(module, "rs_decomposition")
        replace(module, "rs_decomposition", rs_decomposition)
