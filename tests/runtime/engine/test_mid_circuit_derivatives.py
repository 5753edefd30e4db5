"""The engine goes back through mid-circuit measurements.

Values and derivatives are held against PennyLane's default.qubit, which defers the measurements.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.frontend.circuits.derivatives.constructs import OfBellhop, OfPennyLane

import bellhop
from bellhop_runtime import _runtime

WIRES = 4
MATRIX = np.array([[0.5, 0.2 - 0.7j], [0.2 + 0.7j, -1.0]])


def _random_gate(rng, angle):
    first, second = rng.permutation(WIRES)[:2].tolist()
    return [
        lambda: qml.RX(angle, first),
        lambda: qml.Rot(angle, angle + 0.1, 2 * angle, wires=first),
        lambda: qml.CRY(angle, [first, second]),
        lambda: qml.IsingXY(angle, [first, second]),
        lambda: qml.PauliRot(angle, "XY", [first, second]),
    ][rng.integers(5)]()


def _rotate_and_flip(angle, control, target):
    qml.RY(angle, control)
    qml.CNOT([control, target])


def _circuit(seed, of, postselects):
    def circuit(angles):
        rng = np.random.default_rng(seed)
        for i, angle in enumerate(angles):
            _random_gate(rng, angle)
            if i % 4 < 3:
                continue
            wire, flipped, other = rng.permutation(WIRES)[:3].tolist()
            is_chosen = postselects and i > 4
            outcome = of.measure(
                wire, reset=i == 3, postselect=int(rng.integers(2)) if is_chosen else None
            )
            of.cond(outcome, partial(_rotate_and_flip, angle * 1.3, flipped, other))
        return (
            qml.expval(qml.X(0) @ qml.Y(1)),
            qml.expval(0.3 * qml.Z(2) - 0.7 * qml.X(3) @ qml.Z(0)),
            qml.expval(qml.Hermitian(MATRIX, 1)),
        )

    return circuit


def _ours(function, **options):
    return qml.QNode(function, qml.device("lightning.qubit", wires=WIRES), **options)


def _theirs(function):
    return qml.QNode(function, qml.device("default.qubit"), mcm_method="deferred")


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("postselects", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_random_circuits(seed, postselects):
    angles = np.random.default_rng(seed).uniform(-3, 3, 12)
    ours = _ours(_circuit(seed, OfBellhop, postselects), diff_method="adjoint")
    theirs = _theirs(_circuit(seed, OfPennyLane, postselects))

    def stacked(x):
        values = jnp.stack(ours(x))
        return values, values

    before = _runtime.rows_in_engine()
    found, values = bellhop.qjit(jax.jacrev(stacked, has_aux=True))(angles)
    # One run for each combination of outcomes that happens.
    assert before + 2 <= _runtime.rows_in_engine() <= before + (2 if postselects else 8)
    np.testing.assert_allclose(values, theirs(angles), atol=1e-12)
    variables = qml.numpy.array(angles, requires_grad=True)
    expected = qml.jacobian(lambda x: qml.math.stack(theirs(x)))(variables)
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_hessian():
    """Its second derivatives are Jacobians at shifted angles, of the same outcomes."""

    def circuit(of):
        def gates(x):
            qml.RX(x[0], 0)
            qml.CRY(x[1], [0, 1])
            of.cond(of.measure(0, reset=True), lambda: qml.RY(x[0] * x[1], 1))
            qml.IsingXX(x[1], [0, 1])
            return qml.expval(qml.Z(0) @ qml.X(1))

        return gates

    x = np.array([0.4, 1.1])
    found = bellhop.qjit(jax.hessian(_ours(circuit(OfBellhop), diff_method="adjoint")))(x)
    theirs = _theirs(circuit(OfPennyLane))
    variables = qml.numpy.array(x, requires_grad=True)
    expected = qml.jacobian(qml.grad(theirs))(variables)
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_more_qubits_than_the_engine_takes_without_a_derivative():
    """Of a circuit that is differentiated it takes all: no plugin goes back through outcomes."""
    wires = 13

    def circuit(x):
        for wire in range(wires):
            qml.RY(x * (wire + 1), wire)
        for wire in range(wires - 1):
            qml.CNOT([wire, wire + 1])
        bellhop.measure(5)
        qml.QubitUnitary(np.kron(np.eye(64)[::-1], [[0, 1], [1, 0]]), wires=range(4, 11))
        qml.RX(x, 6)
        return qml.expval(qml.Z(5) @ qml.Y(6) + qml.X(4))

    device = qml.device("lightning.qubit", wires=wires)
    found, expected = (
        bellhop.qjit(bellhop.value_and_grad(qml.QNode(circuit, device, diff_method=method)))(0.3)
        for method in ("adjoint", "parameter-shift")
    )
    np.testing.assert_allclose(found, expected, atol=1e-10)
