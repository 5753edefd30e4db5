"""The support matrix: which device runs which measurement, derivative and transformation.

`UNSUPPORTED` lists the cells that raise an error, with the reason that the page gives. All other
cells must give the right value; `test_support_matrix.py` runs them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

import bellhop

ANGLE, SHOTS, STEP = 0.4, 4000, 1e-3
DEVICES = (
    *("lightning.qubit", "default.qubit", "default.mixed"),
    *("default.clifford", "reference.qubit", "null.qubit"),
)
MEASUREMENTS: dict[str, Callable[[], Any]] = {
    "expval": lambda: qml.expval(qml.Z(0) @ qml.Z(1)),
    "expval of a Hamiltonian": lambda: qml.expval(qml.Z(0) + 0.5 * qml.X(1)),
    "expval of a Hermitian": lambda: qml.expval(qml.Hermitian(np.diag([1.0, 2.0]), 1)),
    "var": lambda: qml.var(qml.Z(1)),
    "probs": lambda: qml.probs(wires=[0, 1]),
    "sample": lambda: qml.sample(wires=[0, 1]),
    "counts": lambda: qml.counts(wires=[0, 1]),
    "state": lambda: qml.state(),
    "density_matrix": lambda: qml.density_matrix(wires=[1]),
    "purity": lambda: qml.purity(wires=[1]),
    "vn_entropy": lambda: qml.vn_entropy(wires=[1]),
    "mutual_info": lambda: qml.mutual_info(wires0=[0], wires1=[1]),
    "classical_shadow": lambda: qml.classical_shadow(wires=[0, 1]),
    "shadow_expval": lambda: qml.shadow_expval(qml.Z(1)),
}
# What is measured of the same circuit without a derivative: whole-number or random results.
_RANDOM = {"sample", "counts", "classical_shadow"}
_NEEDS_SHOTS = {*_RANDOM, "shadow_expval"}
_WITHOUT_SHOTS = {"state", "density_matrix", "purity", "vn_entropy", "mutual_info"}
