"""Decompositions into Clifford and T gates of angles that the program computes.

``qml.ops.rs_decomposition(qml.RZ(x, 0), epsilon)`` asks for the value of ``x``, which a program
does not have before it runs.

Replaced: ``rs_decomposition``, in the three modules that PennyLane calls it from.
Versions: 0.45.
Upstream: PennyLane has a branch for Catalyst alone (``is_qjit``).
Installed: with ``qnode_calls``.
Test: ``test_runtime_transforms.py``.
"""

from collections.abc import Callable
from typing import Any

import pennylane as qml

from bellhop._patching import original, patch

# PennyLane's own.
decompose_value = original(qml.ops, "rs_decomposition")


@patch("qml.ops.rs_decomposition", "programs compute the angles")
def patch_rs_decomposition(rs_decomposition: Callable[..., Any]) -> None:
    """Let ``qml.ops.rs_decomposition`` be another function."""
    for module in (qml.ops, qml.ops.op_math, qml.ops.op_math.decompositions):
        original(module, "rs_decomposition")
        module.rs_decomposition = rs_decomposition
