"""The cells of the support matrix: a device, and what a circuit on it measures or goes through.

`check` runs a cell and compares the result with PennyLane's, without compilation, and with finite
differences. `unsupported.py` lists the cells that raise an error instead; `support_page.py` writes
the documentation from both.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

import bellhop

X, OTHER, SHOTS, STEP = 0.4, 0.9, 4000, 1e-3
DEVICES = (
    *("lightning.qubit", "default.qubit", "default.mixed"),
    *("default.clifford", "reference.qubit"),
)
CLIFFORD = "default.clifford"
DERIVATIVES = {"jax.jvp", "jax.vjp", "jax.linearize", "jax.grad"}

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
WITHOUT_DERIVATIVE = {"sample", "counts", "classical_shadow"}
WITHOUT_SHOTS = {"state", "density_matrix", "purity", "vn_entropy", "mutual_info"}
ONLY_SHOTS = {*WITHOUT_DERIVATIVE, "shadow_expval"}
FEATURES = ("value", "grad", "Hessian", "vmap")
SHOT_FEATURES = tuple(f"{feature}, shots" for feature in FEATURES)

METHODS = ("adjoint", "parameter-shift", "backprop", "hadamard", "finite-diff", "spsa")
# Steps that are large enough for the noise of shots, and many directions.
OPTIONS: dict[str, dict[str, Any]] = {
    "finite-diff, shots": {"h": 0.2},
    "spsa": {"num_directions": 100},
    "spsa, shots": {"h": 0.2, "num_directions": 100},
}


def gates(x: Any) -> None:
    """Apply the gates of a circuit with one parameter."""
    qml.RY(x, 0)
    qml.CNOT([0, 1])
    qml.RX(2 * x, 1)


def clifford_gates(_: Any) -> None:
    """Apply Clifford gates, which have no parameter."""
    qml.H(0)
    qml.CNOT([0, 1])
    qml.S(1)


def make_qnode(device: str, result: Callable[[], Any], shots: int | None, **options: Any) -> Any:
    """Return the QNode of the device's gates and a measurement."""
    apply = clifford_gates if device == CLIFFORD else gates

    def circuit(x: Any) -> Any:
        apply(x)
        return result()

    node = qml.QNode(circuit, qml.device(device, wires=3), **options)
    return qml.set_shots(node, shots) if shots else node


def reduce_to_scalar(result: Any) -> Any:
    """Return a weighted sum of all real parts of a result."""
    total = 0.0
    for leaf in map(jnp.asarray, jax.tree.leaves(result)):
        weights = jnp.arange(1, 1 + leaf.size).reshape(leaf.shape)
        total += jnp.sum(jnp.real(leaf) * weights)
    return total


def average(measurement: str, result: Any) -> Any:
    """Return a scalar whose exact value is known: an average over shots of random results."""
    if measurement == "sample":
        return reduce_to_scalar(jnp.mean(jnp.asarray(result, float), axis=0))
    if measurement == "counts":
        return reduce_to_scalar(result[1] / SHOTS)
    if measurement == "classical_shadow":
        bits, recipes = result
        return jnp.max(bits) + jnp.max(recipes)
    return reduce_to_scalar(result)


def exact_value(measurement: str, device: str) -> Callable[[float], float]:
    """Return the exact value of a measurement as a function of the angle, by PennyLane."""
    if measurement == "classical_shadow":
        return lambda x: 3.0  # bits are 0 and 1, recipes 0, 1 and 2
    noted = {"counts": "probs", "sample": "probs"}.get(measurement, measurement)
    result = MEASUREMENTS["expval" if noted == "shadow_expval" else noted]
    if noted == "shadow_expval":
        result = lambda: qml.expval(qml.Z(1))

    def circuit(x: float) -> Any:
        (clifford_gates if device == CLIFFORD else gates)(x)
        return result()

    # These devices return other states than `default.qubit`: density matrices and tableaus.
    is_own = device == "default.mixed" or (
        device == CLIFFORD and noted in ("state", "density_matrix")
    )
    reference = device if is_own else "default.qubit"
    node = qml.QNode(circuit, qml.device(reference, wires=3))
    if measurement == "sample":
        weights = np.array([0, 2, 1, 3])  # of the outcomes 00, 01, 10 and 11
        return lambda x: float(weights @ node(x))
    return lambda x: float(reduce_to_scalar(node(x)))


@dataclass(frozen=True)
class Cell:
    """One entry of the support matrix.

    Attributes:
        device: name of the device.
        row: a measurement, a `diff_method`, a transformation or a construct.
        column: the feature, as `"grad, shots"`, or `""`.
    """

    device: str
    row: str
    column: str

    def __str__(self) -> str:
        return "-".join(filter(None, (self.device, self.row, self.column)))

    @property
    def has_shots(self) -> bool:
        """Whether the circuit is sampled."""
        return self.column.endswith("shots")

    @property
    def differentiates(self) -> bool:
        """Whether the row is a derivative."""
        return bool(set(self.row.replace("`", " ").split()) & DERIVATIVES)

    @property
    def feature(self) -> str:
        """The feature without its shots."""
        return self.column.removesuffix(", shots")

    @property
    def exists(self) -> bool:
        """Whether the feature means something for this row."""
        if self.device == CLIFFORD and (self.feature in ("grad", "Hessian") or self.differentiates):
            return False
        if self.row not in MEASUREMENTS:
            return self.device != CLIFFORD or not self.column
        if self.row in WITHOUT_DERIVATIVE and self.feature in ("grad", "Hessian"):
            return False
        return self.row not in (WITHOUT_SHOTS if self.has_shots else ONLY_SHOTS)


def differentiate(value: Callable[[float], float], order: int) -> float:
    """Return the first or second derivative at `X`, by central differences."""
    if order == 1:
        return (value(X + STEP) - value(X - STEP)) / (2 * STEP)
    return (value(X + STEP) - 2 * value(X) + value(X - STEP)) / STEP**2


def run_measurement(cell: Cell) -> tuple[Any, Any]:
    """Return the function that a measurement's cell evaluates, and the exact value."""
    node = make_qnode(cell.device, MEASUREMENTS[cell.row], SHOTS if cell.has_shots else None)
    value = exact_value(cell.row, cell.device)
    function = lambda x: average(cell.row, node(x))
    if cell.feature == "value":
        return bellhop.qjit(function, seed=1)(X), value(X)
    if cell.feature == "vmap":
        points = jnp.array([X, OTHER])
        return bellhop.qjit(jax.vmap(function), seed=1)(points), [value(X), value(OTHER)]
    if cell.feature == "grad":
        return bellhop.qjit(bellhop.grad(function), seed=1)(X), differentiate(value, 1)
    return bellhop.qjit(jax.hessian(function), seed=1)(X), differentiate(value, 2)


def run_method(cell: Cell) -> tuple[Any, Any]:
    """Return the gradient by a `diff_method`, and the exact one."""
    shots = SHOTS if cell.has_shots else None
    options = OPTIONS.get(cell.row + ", shots" * cell.has_shots, {})
    node = make_qnode(
        cell.device, MEASUREMENTS["expval"], shots, diff_method=cell.row, gradient_kwargs=options
    )
    found = bellhop.qjit(bellhop.grad(node), seed=1)(X)
    return found, differentiate(exact_value("expval", cell.device), 1)


def check(cell: Cell, runs: Callable[[Cell], tuple[Any, Any]]) -> None:
    """Compare the result of a cell with the exact value."""
    found, expected = runs(cell)
    # Averages over shots of several outcomes; shadows have three times the standard deviation.
    noisy = (1.5 if cell.row == "shadow_expval" else 0.5) if cell.has_shots else 1e-3
    if cell.row == "spsa":
        noisy = 0.5
    np.testing.assert_allclose(found, expected, atol=noisy)
