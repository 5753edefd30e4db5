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


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit", "null.qubit"])
def test_a_snapshot_alone_does_nothing(device):
    """As uncompiled: it is ``qml.snapshots`` that takes them."""
    np.testing.assert_allclose(bellhop.qjit(node(device))(0.3), node(device)(0.3), atol=1e-9)


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
def test_snapshots(device):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Snapshots are not supported")
        compiled = bellhop.qjit(qml.snapshots(node(device)))(0.3)
        expected = qml.snapshots(node("default.qubit"))(0.3)
    assert set(compiled) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(compiled[name], value, rtol=0, atol=1e-9)


def test_snapshots_of_density_matrices_and_measurements():
    @qml.snapshots
    @qml.qnode(qml.device("default.mixed", wires=2))
    def circuit(x):
        qml.RX(x, wires=0)
        qml.BitFlip(0.1, wires=0)
        qml.Snapshot("flipped")
        qml.CNOT([0, 1])
        qml.Snapshot("mean", measurement=qml.expval(qml.Z(1)))
        return qml.expval(qml.Z(0)), qml.probs(wires=1)

    for ours, theirs in zip(
        jax.tree.leaves(bellhop.qjit(circuit)(0.3)), jax.tree.leaves(circuit(0.3)), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)


def test_snapshots_of_a_device_without_wires():
    circuit = qml.snapshots(qml.QNode(lambda: qml.probs(wires=0), qml.device("default.qubit")))
    with pytest.raises(bellhop.CompileError, match="needs a device with a known number"):
        bellhop.qjit(circuit)()


def test_specs_and_drawings_of_compiled_circuits():
    compiled = bellhop.qjit(node())
    for what in (compiled, compiled.user_function):
        resources = qml.specs(what)(0.3)["resources"]
        assert resources.gate_types == {"RX": 1, "Snapshot": 1, "CNOT": 1}
    assert qml.specs(compiled, level="device")(0.3) == qml.specs(node(), level="device")(0.3)
    assert qml.draw(compiled)(0.3) == qml.draw(node())(0.3)
    tape = qml.workflow.construct_tape(compiled)(0.3)
    assert [op.name for op in tape.operations] == ["RX", "Snapshot", "CNOT"]
    (tape,), _ = qml.workflow.construct_batch(compiled)(0.3)
    assert [op.name for op in tape.operations] == ["RX", "Snapshot", "CNOT"]


def test_tools_take_functions_of_one_circuit():
    @bellhop.qjit
    def doubled(x):
        return 2 * node()(x)

    for tool in (qml.specs, qml.workflow.construct_tape, qml.workflow.construct_batch):
        with pytest.raises(ValueError, match=rf"{tool.__name__} takes a QNode, or a qjit function"):
            tool(doubled)


def test_measurements_in_circuits_that_are_not_compiled():
    """They are PennyLane's there, so that tools can look into such a circuit."""

    def corrected(x):
        qml.RX(x, wires=0)
        first = bellhop.measure(0, reset=True)
        second = bellhop.measure(0, postselect=0)

        @bellhop.cond(x > 9)
        def correct():
            qml.Z(1)

        @correct.else_if(first)
        def rotate():
            qml.RX(x, wires=1)

        @correct.else_if(second)
        def shift():
            qml.X(1)

        @correct.otherwise
        def other():
            qml.RY(2 * x, wires=1)

        correct()
        return qml.expval(qml.Z(1))

    expected = qml.QNode(corrected, qml.device("default.qubit"))(0.4)
    compiled = bellhop.qjit(node(function=corrected))
    np.testing.assert_allclose(compiled(0.4), expected, atol=1e-9)
    assert qml.specs(compiled)(0.4)["resources"].gate_types["MidMeasureMP"] == 2
    with pytest.raises(bellhop.CompileError, match="bellhop.measure is called outside of a QNode"):
        bellhop.measure(0)


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
def test_iterative_phase_estimation(device):
    """The reference is PennyLane without a compiler, and the bits of the phase by hand."""

    def estimate(x):
        qml.X(0)
        outcomes = qml.iterative_qpe(qml.PhaseShift(x, wires=0), aux_wire=1, iters=3)
        return [qml.probs(op=outcome) for outcome in outcomes]

    compiled = bellhop.qjit(node(device, estimate))
    expected = qml.QNode(estimate, qml.device("default.qubit"))
    np.testing.assert_allclose(compiled(1.3), expected(1.3), atol=1e-9)
    bits = [float(probabilities[1]) for probabilities in compiled(2 * np.pi * 0.625)]
    np.testing.assert_allclose(bits, [1, 0, 1], atol=1e-9)


def test_iterative_phase_estimation_of_a_number_that_is_computed():
    def estimate(n):
        qml.iterative_qpe(qml.PhaseShift(0.1, wires=0), aux_wire=1, iters=n)
        return qml.expval(qml.Z(0))

    with pytest.raises(
        bellhop.CompileError,
        match="qml.iterative_qpe: iters, the number of results, is traced, expected a",
    ):
        bellhop.qjit(node(function=estimate))(3)


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
    with pytest.raises(bellhop.CompileError, match="'rotated'.* number of shots is traced"):
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
    assert "Hadamard" not in program.mlir
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


def test_specs_at_several_levels():
    """As the resources of each level by itself, which PennyLane counts."""

    @bellhop.qjit
    @qml.transforms.merge_rotations
    @qml.marker("cancelled")
    @qml.transforms.cancel_inverses
    @qml.transforms.split_non_commuting
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        qml.RX(x, wires=0)
        qml.RX(x, wires=0)
        qml.X(0)
        qml.X(0)
        return qml.expval(qml.Z(0)), qml.expval(qml.X(0))

    found = qml.specs(circuit, level="all")(0.3)
    split = "split_non_commuting"
    names = ["Before Tape Transforms", split, "Before MLIR Passes", "cancelled", "merge-rotations"]
    assert found.level == dict(enumerate(names))
    assert "merge-rotations" in str(found)
    gates = [of_one.gate_types for of_one in found.resources["merge-rotations"]]
    assert gates == [{"RX": 1}, {"RX": 1}]
    passes = qml.specs(circuit, level="all-mlir")(0.3).resources
    assert list(passes) == names[2:]
    by_name = qml.specs(circuit, level=[0, "cancelled"])(0.3).resources
    assert (
        by_name["cancelled"]
        == qml.specs(circuit, level="cancelled", compute_depth=False)(0.3).resources
    )
    with pytest.raises(
        ValueError,
        match="qml.specs: 7 is not a level of this circuit, expected one of 0, 1, 2, 3, 4, ",
    ):
        qml.specs(circuit, level=[7])
    with pytest.raises(
        ValueError, match="contains no level, expected at least one of 0, 1, 2, 3, 4, "
    ):
        qml.specs(circuit, level=[])


def test_estimates_of_resources():
    def circuit():
        qml.X(0)
        qml.CNOT([0, 1])
        return qml.expval(qml.Z(0))

    plain = qml.QNode(circuit, qml.device("lightning.qubit", wires=2))
    compiled = bellhop.qjit(plain)
    estimate = qml.estimator.estimate
    assert estimate(compiled)().gate_counts == estimate(plain)().gate_counts
    with pytest.raises(ValueError, match=r"qml\.estimate takes a QNode"):
        estimate(bellhop.qjit(lambda x: x))(1.0)
