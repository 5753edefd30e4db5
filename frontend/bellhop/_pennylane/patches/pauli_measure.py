"""Support ``qml.pauli_measure`` in programs; PennyLane has no device for it.

Replaced: its implementation function, so that earlier imports of the name are covered.
Versions: 0.45.
Upstream: a decomposition of ``PauliMeasure`` into gates and a measurement.
Issue: none reported.
Installed: with ``qnode_calls``.
Test: ``test_pauli_measurement.py``.
"""

import sys
from collections.abc import Callable
from typing import Any

import pennylane as qml

from bellhop._patching import original, patch, replace


@patch("qml.pauli_measure", "programs measure Pauli words")
def patch_pauli_measure(make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace the private function that implements ``qml.pauli_measure``.

    Args:
        make: takes the original function, returns the replacement, which works in programs too.
    """
    module: Any = sys.modules[original(qml.ops, "PauliMeasure").__module__]
    replace(module, "_pauli_measure_impl", make(original(module, "_pauli_measure_impl")))
