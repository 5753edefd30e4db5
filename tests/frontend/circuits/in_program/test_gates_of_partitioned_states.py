"""Gates of a state over the devices of a mesh that are not applied as they are to its parts."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from jax.sharding import Mesh
from scipy.linalg import block_diag
from scipy.stats import unitary_group

import bellhop

N_WIRES = 6
# Diagonal on its first wire.
TWO_BLOCKS = block_diag(*(unitary_group.rvs(8, random_state=seed) for seed in (1, 2)))


def over(function):
    mesh = Mesh(np.array(jax.devices("cpu")[:4]), ("state",))
    return bellhop.qjit(bellhop.accelerate(function, dev=mesh))


def qnode(function):
    return qml.qnode(qml.device("default.qubit", wires=N_WIRES))(function)


def entangled():
    for wire in range(N_WIRES):
        qml.RY(0.2 + 0.3 * wire, wire)
        qml.RZ(0.1 * wire, wire)
    for wire in range(N_WIRES):
        qml.CNOT([wire, (wire + 1) % N_WIRES])


def observable():
    return qml.expval(qml.Z(0) @ qml.X(4) + 0.3 * qml.Y(5) @ qml.Z(1) + 0.2 * qml.X(2))


@pytest.mark.parametrize("controls", [[0, 1, 2], [1, 2, 3]])
def test_several_controls_and_computed_angles(controls):
    """PennyLane makes the matrices of these by functions that look at the types of angles."""

    @qnode
    def circuit(x):
        entangled()
        qml.ctrl(qml.Rot(x, 0.3, 2 * x, wires=5), controls)
        qml.ctrl(qml.U3(x, 2 * x, 0.1, wires=4), controls)
        return observable()

    np.testing.assert_allclose(over(circuit)(0.7), circuit(0.7), atol=1e-12)


@pytest.mark.parametrize(
    "apply",
    [
        lambda x: qml.PauliRot(x, "XXZX", [0, 2, 4, 3]),
        lambda x: qml.ctrl(qml.PauliRot(x, "XXZX", [1, 2, 4, 5]), 3, control_values=[0]),
        lambda x: qml.ctrl(qml.PauliRot(x, "ZXY", [4, 2, 5]), [0, 3], control_values=[0, 1]),
        lambda x: qml.ctrl(qml.MultiRZ(x, [1, 4]), [0, 3, 5]),
        lambda x: qml.QubitUnitary(TWO_BLOCKS, [4, 3, 0, 5]),
    ],
    ids=["Pauli rotation", "controlled", "two controls", "phase", "matrix"],
)
def test_matrices_that_are_diagonal_on_some_wires(apply):
    """The devices encode wire 4 here, on which the matrices of these gates are diagonal."""

    @qnode
    def circuit(x):
        entangled()
        apply(x)
        return qml.state()

    np.testing.assert_allclose(over(circuit)(0.7), circuit(0.7), atol=1e-12)


@qnode
def at_computed_wires(x, wire):
    at = lambda further: (wire + further) % N_WIRES
    entangled()
    qml.RX(x, wire)
    qml.CNOT([at(3), wire])
    qml.CRY(2 * x, [at(1), at(5)])
    qml.Toffoli([wire, at(4), at(2)])
    qml.RZ(x, at(1))
    return observable()


@pytest.mark.parametrize("wire", [0, 2, 5])
def test_computed_wires(wire):
    expected = at_computed_wires(0.7, wire)
    np.testing.assert_allclose(over(at_computed_wires)(0.7, wire), expected, atol=1e-12)


def test_derivatives_by_gates_at_computed_wires():
    plus, minus = (at_computed_wires(0.7 + step, 3) for step in (1e-5, -1e-5))
    slope = over(jax.grad(at_computed_wires))(0.7, 3)
    np.testing.assert_allclose(slope, (plus - minus) / 2e-5, atol=1e-8)


def test_loops_and_measurements_at_computed_wires():
    @qnode
    def circuit(x, shift):
        entangled()
        map_sequentially = bellhop.for_loop(0, N_WIRES)
        map_sequentially(lambda i: qml.CRX(x, [i, (i + shift) % N_WIRES]) and None)()
        outcome = bellhop.measure(shift)
        bellhop.cond(outcome, lambda: qml.RY(x, shift + 1) and None)()
        return observable(), qml.expval(qml.Z(shift)), qml.probs(shift)

    # With a wire more, for the outcome.
    @qml.qnode(qml.device("default.qubit"))
    def expected(x):
        entangled()
        for i in range(N_WIRES):
            qml.CRX(x, [i, (i + 2) % N_WIRES])
        outcome = qml.measure(2)
        qml.cond(outcome, qml.RY)(x, 3)
        return observable(), qml.expval(qml.Z(2)), qml.probs(2)

    for value, reference in zip(over(circuit)(0.7, 2), expected(0.7), strict=True):
        np.testing.assert_allclose(value, reference, atol=1e-12)


def test_a_computed_wire_that_is_not_there_is_an_error_or_nan():
    circuit = qnode(lambda wire: (qml.H(wire), qml.expval(qml.Z(0)))[1])
    assert np.isnan(over(circuit)(N_WIRES))


def test_gates_of_more_wires_than_a_part_has_are_decomposed():
    unitary = qml.matrix(qml.prod(*[qml.RY(0.2 + wire, wire) for wire in range(5)]), range(5))

    @qnode
    def circuit(x):
        entangled()
        qml.PauliRot(x, "XYZXYZ", range(N_WIRES))
        qml.ctrl(qml.PauliRot(x, "YYXXZ", range(5)), 5)
        qml.evolve(qml.prod(*map(qml.X, range(5))), x)
        qml.GroverOperator(range(N_WIRES))
        qml.QubitUnitary(unitary, range(1, 6))
        qml.prod(*map(qml.Y, range(N_WIRES)))
        return observable()

    np.testing.assert_allclose(over(circuit)(0.7), circuit(jnp.array(0.7)), atol=1e-12)


@qnode
def with_wide_matrices(x):
    entangled()
    word = qml.matrix(qml.prod(*map(qml.Y, range(5))), range(5))
    qml.QubitUnitary(jnp.cos(x) * np.eye(32) + 1j * jnp.sin(x) * word, [1, 5, 0, 2, 4])
    qml.RX(x, 0)
    return observable(), qml.density_matrix([5, 1, 0, 3, 2])


def test_computed_matrices_and_density_matrices_of_more_wires_than_a_part_has():
    for value, reference in zip(
        over(with_wide_matrices)(0.7), with_wide_matrices(jnp.array(0.7)), strict=True
    ):
        np.testing.assert_allclose(value, reference, atol=1e-12)


def test_derivatives_through_computed_matrices_of_more_wires_than_a_part_has():
    mean = lambda x: with_wide_matrices(x)[0]
    plus, minus = (mean(jnp.array(0.7 + step)) for step in (1e-5, -1e-5))
    np.testing.assert_allclose(over(jax.grad(mean))(0.7), (plus - minus) / 2e-5, atol=1e-8)
