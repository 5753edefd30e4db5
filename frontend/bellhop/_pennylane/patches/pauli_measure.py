"""``qml.pauli_measure`` in programs, for which PennyLane has no device.

Replaced: the function behind it, so that it does not matter how users imported it.
Versions: 0.45.
Upstream: a decomposition of ``PauliMeasure`` into gates and a measurement.
Installed: with ``qnode_calls``.
Test: ``test_pauli_measurement.py``.
"""

import sys
from collections.abc import Callable
from typing import Any

import pennylane as qml

from bellhop._patching import original, patch


@patch("qml.pauli_measure", "programs measure Pauli words")
def patch_pauli_measure(make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Let ``qml.pauli_measure`` be what ``make`` makes of PennyLane's own."""
    module: Any = sys.modules[original(qml.ops, "PauliMeasure").__module__]
    module._pauli_measure_impl = make(original(module, "_pauli_measure_impl"))
