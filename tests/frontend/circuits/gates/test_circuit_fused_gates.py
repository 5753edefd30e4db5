"""Gates that follow one another on one wire of a large state, which are applied as one."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

# From here on gates fuse; see runtime/gates/gate_table.cc.
WIRES = 12

ROTATIONS = (qml.RX, qml.RY, qml.RZ, qml.PhaseShift)
FIXED = (qml.Hadamard, qml.PauliX, qml.PauliY, qml.PauliZ, qml.S, qml.T)


def random_gates(angles: Any, seed: int) -> None:
    """Queue gates of all kinds: those that fuse, and those that stand between them."""
    generator = np.random.default_rng(seed)
    for k in range(len(angles)):
        wire, other = (int(w) for w in generator.choice(3, 2, replace=False))
        match generator.integers(8):
            case 0 | 1 | 2:
                ROTATIONS[generator.integers(4)](angles[k], wires=wire)
            case 3 | 4:
                FIXED[generator.integers(6)](wires=wire)
            case 5:
                qml.adjoint(generator.choice([qml.S, qml.T, qml.PauliY])(wires=wire))
                qml.adjoint(qml.PhaseShift(angles[k], wires=wire))
            case 6:
                qml.CNOT(wires=[wire, other])
            case 7:
                qml.ctrl(qml.RX(angles[k], wires=wire), control=other, control_values=[False])


@pytest.fixture(scope="module")
def angles() -> np.ndarray:
    return np.random.default_rng(5).uniform(-4, 4, 60)


def amplitudes(circuit: Callable[..., None]) -> Callable[..., Any]:
    """Return the amplitudes of the wires that gates act on: of phases, too."""

    def run(device: str) -> Callable[..., Any]:
        @qml.qnode(qml.device(device, wires=WIRES))
        def node(*args: Any) -> Any:
            circuit(*args)
            return qml.state()

        return node

    return run


@pytest.mark.parametrize("seed", range(4))
def test_states(angles: np.ndarray, seed: int) -> None:
    nodes = amplitudes(lambda angles: random_gates(angles, seed))
    actual = bellhop.qjit(nodes("lightning.qubit"))(jnp.asarray(angles))
    np.testing.assert_allclose(actual, nodes("default.qubit")(angles), atol=1e-12)


def test_preparations_and_wires_that_the_program_computes_stay_between(angles: np.ndarray):
    def circuit(loop: Callable[..., None], angles: Any, wire: Any) -> None:
        qml.BasisState(np.array([1, 0]), wires=[0, 1])
        qml.RX(angles[0], wires=0)
        qml.RY(angles[1], wires=wire)
        qml.RX(angles[2], wires=0)
        qml.BasisState(np.array([1]), wires=[2])

        def body(i: Any) -> None:
            qml.RX(angles[i], wires=1)
            qml.RZ(angles[i + 1], wires=1)
            qml.CNOT(wires=[1, 2])
            qml.RY(angles[i], wires=1)

        loop(body)

    def compiled(angles: Any, wire: Any) -> None:
        circuit(lambda body: bellhop.for_loop(0, 20)(body)(), angles, wire)

    def plain(angles: Any, wire: Any) -> None:
        circuit(lambda body: [body(i) for i in range(20)], angles, wire)

    actual = bellhop.qjit(amplitudes(compiled)("lightning.qubit"))(jnp.asarray(angles), 0)
    expected = amplitudes(plain)("default.qubit")(angles, 0)
    np.testing.assert_allclose(actual, expected, atol=1e-12)


@pytest.mark.parametrize("method", ["adjoint", "parameter-shift"])
def test_derivatives(angles: np.ndarray, method: str) -> None:
    def node(device: str, **options: Any) -> Callable[..., Any]:
        @qml.qnode(qml.device(device, wires=WIRES), **options)
        def circuit(angles: Any) -> Any:
            for k in range(3):
                qml.RX(angles[2 * k], wires=k)
                qml.RY(angles[2 * k + 1], wires=k)
                qml.CNOT(wires=[k, k + 1])
            return qml.expval(qml.PauliZ(2))

        return circuit

    few = angles[:6]
    actual = bellhop.qjit(bellhop.grad(node("lightning.qubit", diff_method=method)))(
        jnp.asarray(few)
    )
    expected = qml.grad(node("default.qubit"))(qml.numpy.array(few, requires_grad=True))
    np.testing.assert_allclose(actual, expected, atol=1e-9)
