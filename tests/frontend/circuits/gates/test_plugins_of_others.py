"""Compiled plugins of others whose gates are not marked differentiable: pennylane-qrack.

It is in single precision, and PennyLane's default.qubit says what is right.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.needs import QRACK

import bellhop

QRACK.import_module()
pytestmark = QRACK.mark

X = jnp.array([0.37, 0.58, 0.79])
GATES = (
    *("CNOT", "CRX", "CRY", "CRZ", "CRot", "CSWAP", "CY", "CZ", "ControlledPhaseShift"),
    *("GlobalPhase", "Hadamard", "ISWAP", "IsingXX", "MultiRZ", "PSWAP", "PauliX", "PauliY"),
    *("PauliZ", "PhaseShift", "RX", "RY", "RZ", "Rot", "S", "SWAP", "SX", "T", "Toffoli", "U3"),
)


def on(device, function, **options):
    return qml.QNode(function, qml.device(device, wires=3), **options)


def start():
    for wire in range(3):
        qml.RX(0.3 + 0.5 * wire, wire)
        qml.RY(0.7 - 0.2 * wire, wire)


def forms(x):
    """Apply every gate by constants and by computed angles, inverted and controlled."""
    for name in GATES:
        gate = getattr(qml, name)
        wires = [0, 1, 2][: gate.num_wires or 3]
        constants = [0.37 + 0.21 * i for i in range(gate.num_params)]
        yield gate, constants, wires, "plain"
        yield gate, constants, wires, "inverted"
        if gate.num_params:
            yield gate, [x[i] for i in range(gate.num_params)], wires, "plain"
        if len(wires) < 3 or name == "GlobalPhase":
            yield gate, constants, wires[:2] if name == "GlobalPhase" else wires, "controlled"


def every_gate(x):
    start()
    for gate, values, wires, form in forms(x):
        made = lambda gate=gate, values=values, wires=wires: gate(*values, wires=wires)
        if form == "plain":
            made()
        elif form == "inverted":
            qml.adjoint(made)()
        else:
            qml.ctrl(made, control=2, control_values=[0])()
        # So that no gate is undone by the next.
        qml.RX(0.2, 1)
        qml.CNOT([1, 2])
        qml.RY(0.3, 0)
    return qml.expval(qml.Z(0)), qml.probs(), qml.state()


@pytest.mark.large
@pytest.mark.quick
def test_gates():
    *values, ours = bellhop.qjit(on("qrack.simulator", every_gate))(X)
    *expected, theirs = on("default.qubit", every_gate)(np.asarray(X))
    for one, other in zip(values, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)
    # Up to a global phase.
    np.testing.assert_allclose(abs(np.vdot(ours, theirs)), 1.0, atol=1e-4)


def body(x):
    qml.RX(x, 0)
    qml.CNOT([0, 1])
    qml.CRY(0.4 * x, [1, 2])
    qml.Rot(x, 0.2, x, 1)
    qml.U3(0.3 * x, x, 0.1, 2)


MATRIX = np.array([[1, 2j], [-2j, 0.5]])
MEASURED = {
    "word": lambda: qml.expval(qml.X(0) @ qml.Y(1)),
    "hadamard": lambda: qml.expval(qml.Hadamard(0) @ qml.Z(1)),
    "matrix": lambda: qml.expval(qml.Hermitian(MATRIX, 0)),
    "sum": lambda: qml.expval(0.3 * qml.X(0) + 0.5 * qml.Z(1) @ qml.Y(2) + 2 * qml.I(0)),
    "variance": lambda: qml.var(qml.Z(0) @ qml.X(1)),
    "variance of a sum": lambda: qml.var(0.3 * qml.X(0) + 0.5 * qml.Z(1)),
    "probs": lambda: qml.probs([2, 0]),
}


@pytest.mark.parametrize("name", MEASURED)
def test_values_and_derivatives(name):
    def circuit(x):
        body(x)
        return MEASURED[name]()

    def both(device):
        qnode = on(device, circuit)
        return lambda x: (qnode(x), jax.jacfwd(qnode)(x))

    ours = bellhop.qjit(both("qrack.simulator"))(0.7)
    for one, other in zip(ours, jax.jit(both("default.qubit"))(0.7), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


def test_shots_and_measurement_in_the_middle():
    @qml.set_shots(1000)
    @qml.qnode(qml.device("qrack.simulator", wires=2))
    def circuit(x):
        qml.RX(x, 0)
        m = bellhop.measure(0)
        bellhop.cond(m, lambda: qml.X(1))()
        return qml.expval(qml.Z(1)), qml.expval(m), qml.sample(wires=[0, 1])

    z, ones, samples = bellhop.qjit(circuit)(1.2)
    assert abs(z - np.cos(1.2)) < 0.12
    assert z == pytest.approx(1 - 2 * ones)
    np.testing.assert_array_equal(samples[:, 0], samples[:, 1])


def test_exact_means_over_outcomes():
    def circuit(x):
        qml.RX(x, 0)
        return qml.expval(bellhop.measure(0))

    with pytest.raises(bellhop.CompileError, match="exact averages over the outcomes need"):
        bellhop.qjit(on("qrack.simulator", circuit))(0.3)


def test_exact_means_where_measurements_are_deferred():
    @qml.qnode(qml.device("qrack.simulator", wires=2))
    def circuit(x):
        qml.RX(x, 0)
        bellhop.cond(bellhop.measure(0), lambda: qml.RY(x, 1))()
        return qml.expval(qml.Z(1))

    p = np.sin(0.45) ** 2
    np.testing.assert_allclose(bellhop.qjit(circuit)(0.9), 1 - p + p * np.cos(0.9), atol=1e-5)


def test_groups_of_shots():
    def circuit(x):
        qml.RX(x, 0)
        return qml.expval(qml.Z(0))

    qnode = qml.set_shots(on("qrack.simulator", circuit), (5, 5))
    with pytest.raises(bellhop.CompileError, match="2 groups of shots, expected one group"):
        bellhop.qjit(qnode)(0.3)


def test_preparations_are_decomposed():
    def circuit(features):
        qml.AmplitudeEmbedding(features, wires=[2, 0], normalize=True)
        qml.RX(0.4, 0)
        return qml.expval(qml.Z(0))

    def beginning_with_bits():
        qml.BasisState([1, 1], wires=[2, 0])
        return qml.probs()

    features = jnp.array([0.3, 0.5, 0.1, 0.6])
    ours = bellhop.qjit(jax.grad(on("qrack.simulator", circuit)))(features)
    theirs = jax.grad(on("default.qubit", circuit))(features)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    probs = bellhop.qjit(on("qrack.simulator", beginning_with_bits))()
    np.testing.assert_allclose(probs, np.eye(8)[0b101], atol=1e-6)
