"""A QNode that is called while a program is traced becomes a circuit of the program.

For ``bellhop.qjit(lambda x: circuit(x))``, where ``circuit`` is a QNode::

    without this patch    PennyLane makes a tape of tracers and asks the device to run it
    with it               quantum_circuit[...] x

Replaced: ``QNode.__call__``.
Versions: 0.45.
Upstream: PennyLane's hook for compilers knows Catalyst's class alone.
Installed: when a program that may call QNodes is first traced.
Test: ``tests/frontend/circuits``.
"""

from collections.abc import Callable
from typing import Any

import pennylane as qml

from bellhop._patching import original, patch


@patch("QNode.__call__", "QNodes that a program calls are circuits of it")
def patch_qnode_call(make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Let ``QNode.__call__`` be what ``make`` makes of PennyLane's own."""
    qml.QNode.__call__ = make(original(qml.QNode, "__call__"))
