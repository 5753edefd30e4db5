"""What PennyLane has for compiled programs: gridsynth, options of passes, natural gradients."""

import re
from typing import Any

import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop


def rotations(x: Any) -> Any:
    qml.Hadamard(0)
    qml.RZ(x, wires=0)
    qml.CNOT([0, 1])
    qml.adjoint(qml.PhaseShift(0.2 * x, wires=0))
    qml.RZ(0.4, wires=1)
    return qml.state()


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
def test_gridsynth(device: str) -> None:
    node = qml.QNode(rotations, qml.device(device, wires=2))
    program = bellhop.qjit(qml.transforms.gridsynth(node, epsilon=1e-2))
    for x in (1.1, 0.3):
        difference = np.abs(program(x) - node(x)).max()
        assert 1e-9 < difference < 2e-2


def test_gridsynth_in_another_basis() -> None:
    node = qml.QNode(rotations, qml.device("lightning.qubit", wires=2))
    with pytest.raises(bellhop.CompileError, match="ppr_basis=True is not supported by bellhop"):
        bellhop.qjit(qml.transforms.gridsynth(node, ppr_basis=True))(0.3)


def many_gates(x: Any) -> Any:
    qml.RX(x, wires=0)
    bellhop.for_loop(0, 2, 1)(lambda i: qml.RY(x + i, wires=1) and None)()
    qml.CZ(wires=[0, 1])
    qml.adjoint(qml.PhaseShift(x, wires=1))
    return qml.state()


def test_clifford_t_decomposition_of_computed_angles() -> None:
    node = qml.QNode(many_gates, qml.device("lightning.qubit", wires=2))
    program = bellhop.qjit(qml.clifford_t_decomposition(node, epsilon=0.05))
    assert 1e-9 < np.abs(program(1.1) - bellhop.qjit(node)(1.1)).max() < 0.05
    assert not {"RX", "RY", "RZ", "PhaseShift"} & set(
        re.findall(r"Gate\(name='(\w+)'", str(program.jaxpr))
    )
    with pytest.raises(bellhop.CompileError, match="method='sk' does not support traced angles"):
        bellhop.qjit(qml.clifford_t_decomposition(node, method="sk"))(0.3)


def test_clifford_t_decomposition_of_compositions() -> None:
    def circuit(x: Any) -> Any:
        qml.Hadamard(0)
        qml.change_op_basis(qml.RX(x, 0), qml.RZ(x, 0))
        return qml.state()

    node = qml.QNode(circuit, qml.device("lightning.qubit", wires=1))
    program = bellhop.qjit(qml.clifford_t_decomposition(node, epsilon=0.05))
    assert 1e-9 < np.abs(program(1.1) - bellhop.qjit(node)(1.1)).max() < 0.05


def test_clifford_t_decomposition_of_what_has_none() -> None:
    @qml.clifford_t_decomposition
    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def circuit(x: Any) -> Any:
        qml.QubitUnitary(qml.RX(x, 0).matrix(), wires=0)
        Undecomposed(x, wires=0)
        return qml.state()

    with pytest.raises(bellhop.CompileError, match="no decomposition of Undecomposed into"):
        bellhop.qjit(circuit)(0.3)


class Undecomposed(qml.operation.Operation):
    num_params = 1
    num_wires = 1


@pytest.mark.parametrize("epsilon", [0.5, 1e-3])
def test_rs_decomposition_of_a_computed_angle(epsilon: float) -> None:
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x: Any, decomposed: bool = True) -> Any:
        qml.Hadamard(0)
        gate = qml.PhaseShift(x, wires=0)
        if decomposed:
            *_, phase = qml.ops.rs_decomposition(gate, epsilon)
            assert isinstance(phase, qml.GlobalPhase)
        return qml.state()

    program = bellhop.qjit(circuit, static_argnames="decomposed")
    difference = np.abs(program(0.7) - program(0.7, decomposed=False)).max()
    assert 1e-9 < difference < epsilon


def test_computed_decompositions_inverted_and_controlled() -> None:
    def decomposed(x: Any) -> None:
        qml.ops.rs_decomposition(qml.RZ(x, wires=0), 1e-3)

    def circuit(x: Any, rotation: Any) -> Any:
        qml.Hadamard(0)
        qml.Hadamard(1)
        qml.ctrl(rotation, 1)(x)
        qml.adjoint(rotation)(2 * x)
        return qml.expval(qml.Y(0))

    node = qml.QNode(circuit, qml.device("lightning.qubit", wires=2))
    found = bellhop.qjit(lambda x: node(x, decomposed))(0.8)
    expected = bellhop.qjit(lambda x: node(x, lambda x: qml.RZ(x, wires=0) and None))(0.8)
    assert 1e-9 < abs(found - expected) < 4e-3
    with pytest.raises(bellhop.CompileError, match="takes one angle, got an array"):
        bellhop.qjit(lambda x: node(x, decomposed))(jnp.ones(2))


def test_options_of_passes() -> None:
    message = "apply_pass: the pass 'cancel_inverses' has no options, got {'max_value': 3}"
    with pytest.raises(ValueError, match=message):
        bellhop.passes.apply_pass("cancel_inverses", max_value=3)


@pytest.mark.parametrize(
    ("compiled", "plain"),
    [
        (qml.QNGOptimizerQJIT, qml.QNGOptimizer),
        (qml.MomentumQNGOptimizerQJIT, qml.MomentumQNGOptimizer),
    ],
)
def test_natural_gradients(compiled: Any, plain: Any) -> None:
    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def circuit(x: Any) -> Any:
        qml.RX(x[0], wires=0)
        qml.CNOT([0, 1])
        qml.RY(x[1], wires=1)
        return qml.expval(qml.Z(1))

    optimizer = compiled(stepsize=0.1)

    @bellhop.qjit
    def train(x: Any) -> Any:
        step = lambda _, x, state: optimizer.step(circuit, x, state)
        return bellhop.for_loop(0, 4)(step)(x, optimizer.init(x))[0]

    uncompiled, reference = qml.numpy.array([0.3, 0.5]), plain(stepsize=0.1)
    for _ in range(4):
        uncompiled = reference.step(circuit, uncompiled)
    np.testing.assert_allclose(train(jnp.array([0.3, 0.5])), uncompiled, atol=1e-6)
