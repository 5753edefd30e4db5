"""Record a QNode call in a traced program as a circuit of the program.

For ``bellhop.qjit(lambda x: circuit(x))``, where ``circuit`` is a QNode::

    without this patch    PennyLane makes a tape of tracers and executes it on the device
    with it               quantum_circuit[...] x

Replaced: ``QNode.__call__``.
Versions: 0.45.
Upstream: a compiler hook of PennyLane that is not tied to Catalyst's class.
Issue: none reported.
Installed: when a program that may call QNodes is first traced.
Test: ``tests/frontend/circuits``.
"""

from collections.abc import Callable
from typing import Any

import pennylane as qml

from bellhop._patching import original, patch, replace


@patch("QNode.__call__", "QNodes in a program become its circuits")
def patch_qnode_call(make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace ``QNode.__call__``, to record calls in a traced program as circuits.

    Args:
        make: takes the original method, returns the replacement.
    """
    replace(qml.QNode, "__call__", make(original(qml.QNode, "__call__")))
