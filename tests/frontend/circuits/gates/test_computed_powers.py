"""qml.pow with exponents that the program computes."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

GATES = {
    "X": lambda: qml.X(0),
    "Y": lambda: qml.Y(0),
    "Z": lambda: qml.Z(0),
    "H": lambda: qml.H(0),
    "S": lambda: qml.S(0),
    "T": lambda: qml.T(0),
    "SX": lambda: qml.SX(0),
    "inverse of S": lambda: qml.adjoint(qml.S(0)),
    "Rot": lambda: qml.Rot(0.1, 0.2, 0.3, 0),
    "matrix": lambda: qml.QubitUnitary(np.array([[0, 1j], [1, 0]]), 0),
    "power": lambda: qml.pow(qml.X(0), 2),
    "product": lambda: qml.X(0) @ qml.Y(1),
    "CNOT": lambda: qml.CNOT([0, 1]),
    "CH": lambda: qml.CH([1, 0]),
    "ISWAP": lambda: qml.ISWAP([0, 1]),
    "Toffoli": lambda: qml.Toffoli([0, 1, 2]),
}


def circuit(gate: Any, z: Any) -> Any:
    for wire in range(3):
        qml.Rot(0.3 + wire, 0.7, 0.4 - wire, wires=wire)
    qml.pow(gate(), z)
    qml.RX(0.4, 0)
    return qml.expval(qml.Z(0)), qml.expval(qml.X(0) @ qml.Y(1)), qml.expval(qml.Z(2))


def reference(gate: Any, z: float) -> Any:
    """Return the results of PennyLane, which takes powers of matrices."""
    with qml.queuing.AnnotatedQueue():
        power = qml.pow(gate(), z)
        matrix, wires = qml.matrix(power), power.wires

    @qml.qnode(qml.device("default.qubit", wires=3))
    def uncompiled() -> Any:
        for wire in range(3):
            qml.Rot(0.3 + wire, 0.7, 0.4 - wire, wires=wire)
        qml.QubitUnitary(matrix, wires)
        qml.RX(0.4, 0)
        return qml.expval(qml.Z(0)), qml.expval(qml.X(0) @ qml.Y(1)), qml.expval(qml.Z(2))

    return np.array(uncompiled())


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
@pytest.mark.parametrize("name", GATES)
def test_values_and_gradients(name: str, device: str) -> None:
    gate, step = GATES[name], 1e-5
    node = qml.QNode(lambda z: circuit(gate, z), qml.device(device, wires=3))
    both = bellhop.qjit(lambda z: (node(z), jax.jacobian(node)(z)))
    for z in (0.3, -1.7):
        values, slopes = both(z)
        np.testing.assert_allclose(values, reference(gate, z), atol=1e-9)
        expected = (reference(gate, z + step) - reference(gate, z - step)) / (2 * step)
        np.testing.assert_allclose(slopes, expected, atol=1e-8)


def test_in_other_forms() -> None:
    """As inverses, with controls, eagerly, on computed wires and by integers."""

    def forms(z: Any, wire: Any, n: Any) -> Any:
        qml.Hadamard(1)
        qml.pow(qml.X(0), z, lazy=False)
        qml.adjoint(qml.pow(qml.H(0), z))
        qml.ctrl(qml.pow(qml.Y(0), z), 1)
        qml.pow(qml.SX(wire), z)
        qml.Y(0) ** n
        return qml.probs(wires=[0, 1])

    def uncompiled(z: Any, wire: Any, n: Any) -> Any:
        qml.Hadamard(1)
        qml.QubitUnitary(qml.matrix(qml.X(0) ** z), 0)
        qml.adjoint(qml.QubitUnitary(qml.matrix(qml.H(0) ** z), 0))
        qml.ctrl(qml.QubitUnitary(qml.matrix(qml.Y(0) ** z), 0), 1)
        qml.QubitUnitary(qml.matrix(qml.SX(0) ** z), wire)
        qml.QubitUnitary(qml.matrix(qml.Y(0) ** n), 0)
        return qml.probs(wires=[0, 1])

    found = bellhop.qjit(qml.QNode(forms, qml.device("lightning.qubit", wires=2)))(0.3, 1, 3)
    with qml.QueuingManager.stop_recording():
        tape = qml.tape.make_qscript(uncompiled)(0.3, 1, 3)
    (expected,) = qml.execute([_without_matrix_operands(tape)], qml.device("default.qubit"))
    np.testing.assert_allclose(found, expected, atol=1e-9)


def _without_matrix_operands(tape: Any) -> Any:
    """Return a tape without the gates that were queued as arguments of ``qml.matrix``."""
    kinds = qml.QubitUnitary | qml.Hadamard | qml.ops.Adjoint | qml.ops.Controlled
    return tape.copy(operations=[op for op in tape.operations if isinstance(op, kinds)])


def test_what_has_no_known_matrix_is_an_error() -> None:
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def rotated(x: Any, z: Any) -> Any:
        qml.pow(qml.Rot(x, x, x, 0), z)
        return qml.expval(qml.Z(0))

    message = "qml.pow raises Rot to a traced power, expected a unitary gate"
    with pytest.raises(bellhop.CompileError, match=message):
        bellhop.qjit(rotated)(jnp.pi / 3, 0.5)
