"""Parameter broadcasting: batches of parameters in the gates of one circuit.

Values are held against PennyLane's own ``default.qubit``, run with the same batches and not
compiled.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

DEVICES = ("lightning.qubit", "default.qubit")
ANGLES = np.array([0.1, -0.7, 2.3])
UNITARIES = np.stack([qml.matrix(qml.Rot(angle, 0.2, 0.3, wires=0)) for angle in ANGLES])
STATES = np.array([[1, 2, 0, 1j], [0, 1, 1, 1], [3, 0, -1, 0]], complex)
STATES /= np.linalg.norm(STATES, axis=1, keepdims=True)

GATES: dict[str, Callable[[Any], Any]] = {
    "RX": lambda x: qml.RX(x, wires=0),
    "mixed with a number": lambda x: qml.Rot(x, 0.4, 2 * x, wires=1),
    "two gates": lambda x: (qml.RX(x, wires=0), qml.RY(0.3, wires=0), qml.RZ(x**2, wires=0)),
    "controlled": lambda x: qml.ctrl(qml.RY(x, wires=0), control=[1, 2], control_values=[0, 1]),
    "adjoint": lambda x: qml.adjoint(qml.CRot(x, 0.1, x, wires=[0, 1])),
    "power": lambda x: qml.pow(qml.RX(x, wires=0), 2),
    "product": lambda x: qml.prod(qml.RX(x, wires=0), qml.RY(0.2, wires=1)),
    "controlled product": lambda x: qml.ctrl(
        qml.prod(qml.RX(x, wires=0), qml.RY(x, wires=2)), control=1
    ),
    "MultiRZ": lambda x: qml.MultiRZ(x, wires=[0, 1, 2]),
    "PauliRot": lambda x: qml.PauliRot(x, "XIY", wires=[0, 1, 2]),
    "controlled MultiRZ": lambda x: qml.ctrl(qml.MultiRZ(x, wires=[0, 1]), control=2),
    "PCPhase": lambda x: qml.PCPhase(x, 2, wires=[0, 1]),
    "GlobalPhase": lambda x: qml.ctrl(qml.GlobalPhase(x), control=0),
    "AngleEmbedding": lambda x: qml.AngleEmbedding(
        qml.math.stack([x, 2 * x], axis=-1), wires=[0, 1], rotation="Y"
    ),
    "generator": lambda x: qml.evolve(x * qml.X(0) + 0.2 * qml.Z(1)),
    "generator and time": lambda x: qml.adjoint(qml.evolve(x * qml.X(0) @ qml.Z(1), x)),
    "controlled exponential": lambda x: qml.ctrl(qml.exp(x * qml.Y(0), -1j), control=1),
    "diagonal": lambda x: qml.DiagonalQubitUnitary(
        qml.math.exp(1j * qml.math.stack([x, 2 * x], axis=-1)), wires=0
    ),
    "constant matrices": lambda x: (qml.QubitUnitary(UNITARIES, wires=0), qml.RX(x, wires=0)),
    "controlled matrices": lambda _: qml.ControlledQubitUnitary(UNITARIES, wires=[2, 0]),
    "QAOAEmbedding": lambda x: qml.QAOAEmbedding(
        qml.math.stack([x, 2 * x], axis=-1), np.array([[0.1, 0.2, 0.3]]), wires=[0, 1]
    ),
}


def prepare() -> None:
    for wire in range(3):
        qml.RY(0.4 + wire, wires=wire)
    qml.CNOT(wires=[0, 1])


def measure() -> Any:
    return (
        qml.expval(qml.X(0) @ qml.Y(1)),
        {"p": qml.probs(wires=[0, 2]), "v": qml.var(qml.Z(1))},
        qml.expval(qml.Hermitian(np.array([[0.5, 1j], [-1j, 0.2]]), wires=2)),
    )


def in_circuit(gates: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def circuit(x: Any) -> Any:
        prepare()
        gates(x)
        qml.CNOT(wires=[1, 2])
        return measure()

    return circuit


def node(function: Callable[..., Any], device: str = "lightning.qubit", **options: Any) -> Any:
    return qml.QNode(function, qml.device(device, wires=3), **options)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", GATES)
def test_values(assert_close: Any, device: str, name: str) -> None:
    circuit = in_circuit(GATES[name])
    expected = node(circuit, "default.qubit")(ANGLES)
    assert_close(bellhop.qjit(node(circuit, device))(jnp.array(ANGLES)), expected)


# Operators that only a device with matrices applies.
BY_MATRIX: dict[str, Callable[[Any], Any]] = {
    "evolution of a sum": lambda x: qml.evolve(qml.Z(0) + 0.5 * qml.X(0), x),
    "evolution of a multiple": lambda x: qml.evolve(
        qml.s_prod(x, qml.Z(0) + x * qml.X(1) @ qml.Z(0)), 0.7
    ),
    "controlled inverse of an exponential": lambda x: qml.ctrl(
        qml.adjoint(qml.exp(x * qml.Z(0) + 0.5 * qml.X(0), 1j * x)), control=1
    ),
    "exponential of gates": lambda x: qml.exp(
        qml.CRX(x, [0, 1]) @ qml.adjoint(qml.RY(x, 2)), 0.3j * x
    ),
    "controlled multiple": lambda x: qml.ctrl(qml.s_prod(jnp.exp(1j * x), qml.X(0)), control=1),
    "controlled sum": lambda x: qml.ctrl(
        qml.s_prod(jnp.cos(x), qml.I(0)) + qml.s_prod(1j * jnp.sin(x), qml.X(0)), control=1
    ),
}


@pytest.mark.parametrize("name", BY_MATRIX)
def test_operators_applied_by_matrix(assert_close: Any, name: str) -> None:
    circuit = node(in_circuit(BY_MATRIX[name]), "default.qubit")
    assert_close(bellhop.qjit(circuit)(jnp.array(ANGLES)), circuit(ANGLES))


PREPARATIONS: dict[str, Callable[[], Any]] = {
    "StatePrep": lambda: qml.StatePrep(STATES, wires=[0, 2]),
    "AmplitudeEmbedding": lambda: qml.AmplitudeEmbedding(
        3 * STATES[:, :3], wires=[0, 1], normalize=True, pad_with=0.5
    ),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", PREPARATIONS)
def test_prepared_states(assert_close: Any, device: str, name: str) -> None:
    def circuit(x: Any) -> Any:
        PREPARATIONS[name]()
        qml.RX(x, wires=0)
        return qml.state(), qml.expval(qml.X(0))

    expected = node(circuit, "default.qubit")(0.3)
    assert_close(bellhop.qjit(node(circuit, device))(0.3), expected)


@pytest.mark.large
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("method", ["best", "parameter-shift"])
def test_derivative(assert_close: Any, device: str, method: str) -> None:
    def circuit(x: Any, y: Any) -> Any:
        qml.RX(x, wires=0)
        qml.ctrl(qml.RY, control=0)(x * y, wires=1)
        qml.RZ(y, wires=1)
        return qml.expval(qml.Y(0)), qml.expval(qml.X(1))

    jacobian = lambda f: bellhop.jacobian(f, argnums=[0, 1])
    ours = bellhop.qjit(jacobian(node(circuit, device, diff_method=method)))
    args = jnp.array(ANGLES), jnp.array(0.4)
    theirs = jax.jacobian(node(circuit, "default.qubit"), argnums=[0, 1])(*args)
    assert_close(ours(*args), theirs)


@pytest.mark.parametrize("device", DEVICES)
def test_in_control_flow(assert_close: Any, device: str) -> None:
    def circuit(x: Any, n: Any) -> Any:
        @bellhop.for_loop(0, 3, 1)
        def loop(i: Any, angle: Any) -> Any:
            qml.RX(x * (i + 1), wires=0)
            qml.CRY(angle, wires=[0, 1])
            return angle + x[0]

        @bellhop.cond(n > 1)
        def more() -> None:
            bellhop.ctrl(lambda: qml.RX(x, wires=1), control=0)()

        loop(0.3)
        more()
        return qml.expval(qml.Z(1))

    def in_python(x: Any, n: Any) -> Any:
        for i in range(3):
            qml.RX(x * (i + 1), wires=0)
            qml.CRY(0.3 + i * x[0], wires=[0, 1])
        if n > 1:
            qml.ctrl(qml.RX(x, wires=1), control=0)
        return qml.expval(qml.Z(1))

    compiled = bellhop.qjit(node(circuit, device))
    for n in (0, 2):
        assert_close(compiled(jnp.array(ANGLES), n), node(in_python, "default.qubit")(ANGLES, n))


@pytest.mark.parametrize("device", DEVICES)
def test_with_mid_circuit_measurements(assert_close: Any, device: str) -> None:
    def circuit(x: Any) -> Any:
        qml.RX(x, wires=0)
        outcome = bellhop.measure(0)
        qml.RY(x * (0.5 + outcome), wires=1)
        return qml.expval(qml.X(1)), qml.probs(op=outcome)

    one = bellhop.qjit(node(circuit, device))
    expected = jax.tree.map(lambda *rows: np.stack(rows), *(one(angle) for angle in ANGLES))
    assert_close(bellhop.qjit(node(circuit, device))(jnp.array(ANGLES)), expected)


def test_shots() -> None:
    def circuit(x: Any) -> Any:
        qml.RX(x, wires=0)
        return qml.expval(qml.Z(0)), qml.sample(wires=[0, 1]), qml.probs(wires=0)

    shots = 2000
    sampled = qml.set_shots(node(circuit), shots)
    mean, samples, frequencies = bellhop.qjit(sampled, seed=3)(jnp.array(ANGLES))
    assert mean.shape == (3,)
    assert samples.shape == (3, shots, 2)
    assert frequencies.shape == (3, 2)
    np.testing.assert_allclose(mean, np.cos(ANGLES), atol=6 / np.sqrt(shots))
    np.testing.assert_allclose(1 - 2 * np.mean(samples[:, :, 0], axis=1), mean, atol=1e-12)
    partitioned = qml.set_shots(node(circuit), [3, 4])
    ours, theirs = bellhop.qjit(partitioned)(jnp.array(ANGLES)), partitioned(ANGLES)
    assert jax.tree.map(np.shape, ours) == jax.tree.map(np.shape, theirs)


def test_batched_gates_under_vmap(assert_close: Any) -> None:
    def circuit(x: Any, y: Any) -> Any:
        qml.RX(x, wires=0)
        qml.RY(y, wires=0)
        return qml.expval(qml.Z(0))

    ys = jnp.array([0.2, 0.5])
    ours = bellhop.qjit(jax.vmap(node(circuit), in_axes=(None, 0)))(jnp.array(ANGLES), ys)
    assert_close(ours, np.cos(ANGLES) * np.cos(ys)[:, None])


@pytest.mark.parametrize("device", DEVICES)
def test_batches_of_different_sizes(device: str) -> None:
    def circuit(x: Any) -> Any:
        qml.RX(x, wires=0)
        qml.RY(x[:2], wires=0)
        return qml.expval(qml.Z(0))

    message = (
        "the QNode 'circuit'.*RY has a batch of 2 parameters, expected 3, the batch size of RX"
    )
    with pytest.raises(bellhop.CompileError, match=message):
        bellhop.qjit(node(circuit, device))(jnp.array(ANGLES))


def test_a_batch_of_none_is_refused():
    circuit = qml.QNode(
        lambda x: (qml.RX(x, wires=0), qml.expval(qml.Z(0)))[1],
        qml.device("lightning.qubit", wires=1),
    )
    with pytest.raises(bellhop.CompileError, match="RX has a batch of 0 parameters"):
        bellhop.qjit(circuit)(np.zeros(0))
