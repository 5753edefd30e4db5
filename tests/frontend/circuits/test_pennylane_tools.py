"""PennyLane's tools around a circuit: snapshots, specs, drawings, passes by name, shots."""

import warnings

import jax
import numpy as np
import pennylane as qml
import pytest

import bellhop


def rotated(x):
    qml.RX(x, wires=0)
    qml.Snapshot("between")
    qml.CNOT(wires=[0, 1])
    return qml.expval(qml.Z(1))


def node(device="lightning.qubit", function=rotated):
    return qml.QNode(function, qml.device(device, wires=2))


MEASURED = {
    "density matrix": lambda: qml.density_matrix([1]),
    "purity": lambda: qml.purity([0]),
    "entropy": lambda: qml.vn_entropy([0], log_base=2),
    "mutual information": lambda: qml.mutual_info([0], [1]),
    "state": lambda: qml.state(),
}


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
@pytest.mark.parametrize("name", MEASURED)
def test_functions_of_the_state(device, name):
    def function(x):
        qml.RX(x, wires=1)
        qml.IsingXY(2 * x, wires=[0, 1])
        return MEASURED[name](), qml.expval(qml.Z(1))

    compiled = bellhop.qjit(node(device, function))(0.4)
    expected = node("default.qubit", function)(0.4)
    for ours, theirs in zip(compiled, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)


def test_functions_of_a_mixture_are_refused():
    def function(x):
        qml.RX(x, wires=0)
        bellhop.measure(0)
        return qml.purity([0])

    with pytest.raises(bellhop.CompileError, match="PurityMP after mid-circuit measurements"):
        bellhop.qjit(node(function=function))(0.4)


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit", "null.qubit"])
def test_a_snapshot_alone_does_nothing(device):
    """As uncompiled: it is ``qml.snapshots`` that takes them."""
    np.testing.assert_allclose(bellhop.qjit(node(device))(0.3), node(device)(0.3), atol=1e-9)


def test_snapshots():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Snapshots are not supported")
        compiled = bellhop.qjit(qml.snapshots(node()))(0.3)
        expected = qml.snapshots(node("default.qubit"))(0.3)
    assert set(compiled) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(compiled[name], value, rtol=0, atol=1e-9)


def test_snapshots_that_pennylane_leaves_to_the_device():
    with pytest.raises(bellhop.CompileError, match="qml.snapshots on default.qubit"):
        bellhop.qjit(qml.snapshots(node("default.qubit")))(0.3)


def test_specs_and_drawings_of_compiled_circuits():
    compiled = bellhop.qjit(node())
    resources = qml.specs(compiled.user_function)(0.3)["resources"]
    assert resources.gate_types == {"RX": 1, "Snapshot": 1, "CNOT": 1}
    assert qml.draw(compiled)(0.3) == qml.draw(node())(0.3)


@pytest.mark.parametrize(
    "circuit",
    [
        lambda n: qml.set_shots(node(), n)(0.3),
        lambda n: qml.set_shots(node("default.qubit"), n)(0.3),
        lambda n: qml.set_shots(node("null.qubit"), n)(0.3),
        lambda n: qml.QNode(rotated, qml.device("lightning.qubit", wires=2), shots=n)(0.3),
    ],
)
def test_shots_that_the_program_computes(circuit):
    with pytest.raises(bellhop.CompileError, match="'rotated'.* number of shots is computed"):
        bellhop.qjit(circuit)(10)
    assert -1 <= bellhop.qjit(circuit, static_argnums=0)(10) <= 1


def test_passes_by_name():
    def function():
        qml.Hadamard(0)
        qml.Hadamard(0)
        return qml.probs(wires=0)

    cancel = qml.transform(pass_name="cancel-inverses")
    program = bellhop.qjit(cancel(node(function=function)))
    np.testing.assert_allclose(program(), [1, 0])
    assert "Hadamard" in program.mlir
    assert "Hadamard" not in program.mlir_opt
    unknown = qml.transform(pass_name="no-such-pass")(node(function=function))
    with pytest.raises(ValueError, match="there is no circuit pass 'no-such-pass'"):
        bellhop.qjit(unknown)()


def test_a_loaded_function_is_not_differentiated(tmp_path):
    program = bellhop.qjit(node())
    program(0.3)
    program.save(tmp_path / "circuit.bellhop")
    loaded = bellhop.load(tmp_path / "circuit.bellhop")
    for transform in (bellhop.grad, jax.grad, jax.jit):
        with pytest.raises(NotImplementedError, match="Save the derivative"):
            transform(loaded)(0.3)
