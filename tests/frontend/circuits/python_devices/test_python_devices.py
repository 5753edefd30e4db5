"""Devices that are Python objects: circuits are tapes that the program lets them execute."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.frontend.circuits.python_devices.counting_device import (
    CalledMixed,
    CountingDevice,
    as_numpy,
)
from tests.needs import QUIMB, STIM

import bellhop


def assert_as_uncompiled(qnode, *args):
    """Compare structure, shapes and values with those of the uncompiled QNode."""
    # With arrays of JAX's, PennyLane compiles each operation of the device apart.
    theirs = as_numpy(qnode(*map(np.asarray, args)))
    ours = bellhop.qjit(qnode)(*args)
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, atol=1e-10)


def entangled(x):
    qml.RX(x, 0)
    qml.CNOT([0, 1])
    return {"z": qml.expval(qml.Z(1)), "others": (qml.var(qml.X(0) @ qml.Y(1)), qml.probs([1]))}


def stabilizer(x):
    qml.H(0)
    qml.CNOT([0, 1])
    return qml.expval(qml.X(0) @ qml.X(1)), qml.probs()


def noisy(x):
    qml.RX(x, 0)
    qml.AmplitudeDamping(x / 4, 0)
    qml.QubitChannel([np.eye(2) * 0.8, np.array([[0, 0.6], [0.6, 0]])], 0)
    return qml.expval(qml.Z(0)), qml.state(), qml.density_matrix([1]), qml.purity([0])


def qutrits(x):
    qml.TRX(x, wires=0, subspace=(0, 2))
    qml.TAdd([0, 1])
    return qml.expval(qml.GellMann(1, index=3)), qml.probs([0, 1])


def state(x):
    qml.RX(x, 0)
    qml.CNOT([0, 1])
    return qml.state()


def parity(x):
    qml.RX(x, 0)
    qml.CNOT([0, 1])
    return qml.expval(qml.Z(1))


def tableau(_):
    qml.H(0)
    qml.CNOT([0, 1])
    return qml.state()


DEVICES = {
    "reference.qubit": entangled,
    "state of reference.qubit": state,
    "default.clifford": stabilizer,
    "tableau of default.clifford": tableau,
    "derived.mixed": noisy,
    "default.tensor": parity,
    "default.qutrit": qutrits,
    "default.qutrit.mixed": qutrits,
}
NEEDS = {
    "default.clifford": [STIM.mark],
    # quimb compiles for seconds when it is first used.
    "default.tensor": [QUIMB.mark, pytest.mark.large],
}
CASES = [pytest.param(name, marks=NEEDS.get(name.split()[-1], [])) for name in DEVICES]


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    device = name.split()[-1]
    made = CalledMixed(wires=2) if device == "derived.mixed" else qml.device(device, wires=2)
    assert_as_uncompiled(qml.QNode(DEVICES[name], made), 0.3)


def test_device_without_wires_has_those_of_the_circuit():
    @qml.qnode(CountingDevice())
    def circuit(x):
        qml.RX(x, "a")
        qml.CNOT(["a", "b"])
        return qml.probs()

    assert_as_uncompiled(circuit, 0.3)


def test_numbers_that_the_program_computes():
    @qml.qnode(CalledMixed(wires=2))
    def circuit(weights, matrix, coefficient):
        qml.StronglyEntanglingLayers(weights, wires=[0, 1])
        qml.QubitUnitary(matrix, 0)
        qml.adjoint(qml.ctrl(qml.RX(weights[0, 0, 0], 1), 0))
        return qml.expval(coefficient * qml.Z(0) + qml.X(1) @ qml.Y(0))

    weights = jnp.linspace(0, 1, 6).reshape(1, 2, 3)
    matrix = jnp.array([[0.6, 0.8j], [0.8j, 0.6]])
    assert_as_uncompiled(circuit, weights, matrix, 0.7)


def _block(weights, wires):
    qml.RY(weights[0], wires[0])
    qml.RX(weights[1], wires[1])
    qml.CNOT(wires)


def _crx(index, wires, param):
    return qml.CRX(param, wires)


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: qml.QuantumPhaseEstimation(qml.PhaseShift(x, wires=1), estimation_wires=[0]),
        lambda x: qml.Reflection(qml.prod(qml.RX(x, wires=1), qml.H(0)), 0.3),
        lambda x: qml.ctrl(qml.Reflection(qml.RX(x, wires=1), x), control=0),
        lambda x: qml.MPS([0, 1], 2, _block, 2, template_weights=x * np.ones((1, 2))),
        lambda x: qml.TwoLocalSwapNetwork([0, 1], _crx, weights=x * np.ones(1)),
        lambda x: qml.TrotterProduct(qml.dot([x, 0.3], [qml.X(0), qml.Y(0)]), 0.4),
        lambda x: qml.change_op_basis(qml.RX(x, 0), qml.RZ(0.3 * x, 0)),
        lambda x: qml.adjoint(qml.change_op_basis(qml.RX(x, 0), qml.RZ(0.3 * x, 0))),
    ],
)
def test_templates_that_hold_computed_parameters(operation):
    def circuit(x):
        qml.H(0)
        qml.X(1)
        operation(x)
        return qml.probs(wires=[0, 1])

    assert_as_uncompiled(qml.QNode(circuit, CountingDevice(wires=2)), 0.7)


def test_quantum_function_in_a_closure_over_the_program():
    device = CalledMixed(wires=1)

    @bellhop.qjit
    def program(x):
        y = jnp.sin(x)

        @qml.qnode(device)
        def circuit():
            qml.RX(2 * y, 0)
            return qml.expval(qml.Z(0))

        return 3 * circuit()

    np.testing.assert_allclose(program(0.4), 3 * np.cos(2 * np.sin(0.4)))


def branching(x):
    def one():
        qml.RX(x, 0)
        return 2.0 * x

    def other():
        qml.RY(2 * x, 1)
        qml.RX(x / 10, 1)
        return x

    angle = bellhop.cond(x > 0.5, one, other)()
    bellhop.for_loop(0, 2)(lambda i: qml.RX(angle * (i + 1), i) and None)()
    return qml.expval(qml.Z(0)), qml.expval(qml.Z(1))


@pytest.mark.parametrize("x", [0.3, 0.8])
def test_branch_that_the_program_chooses(x):
    assert_as_uncompiled(qml.QNode(branching, CalledMixed(wires=2)), x)


def test_vmap_is_one_batch_of_tapes():
    device = CountingDevice(wires=2)
    angles = jnp.array([0.3, 0.8, 0.4, 0.9])
    values = bellhop.qjit(jax.vmap(qml.QNode(branching, device)))(angles)
    assert device.batches == [4]
    uncompiled = qml.QNode(branching, qml.device("default.qubit", wires=2))
    expected = [uncompiled(float(x)) for x in angles]
    np.testing.assert_allclose(np.stack(values, axis=1), expected, atol=1e-10)


def test_batches_of_parameters_are_one_batch_of_tapes():
    device = CountingDevice(wires=1)

    @qml.qnode(device)
    def circuit(x):
        qml.RX(x, 0)
        return qml.expval(qml.Z(0))

    angles = jnp.array([0.1, 0.2, 0.3])
    np.testing.assert_allclose(bellhop.qjit(circuit)(angles), np.cos(angles), atol=1e-10)
    assert device.batches == [3]


def test_measurement_in_the_middle():
    @qml.qnode(CalledMixed(wires=4))
    def circuit(x):
        qml.RX(x, 0)
        m = bellhop.measure(0, reset=True)
        bellhop.cond(m, lambda: qml.RX(x, 1), lambda: qml.RY(2 * x, 1))()
        n = qml.measure(1)
        return qml.expval(qml.Z(0)), qml.probs(1), qml.expval(m), qml.probs(op=[m, n])

    assert_as_uncompiled(circuit, 0.8)


def test_values_beside_measurements():
    @qml.qnode(CalledMixed(wires=1))
    def circuit(x):
        return qml.expval(qml.Z(0)), 2 * x

    np.testing.assert_allclose(bellhop.qjit(circuit)(0.4), (1.0, 0.8))


def test_precision_is_that_of_the_numbers():
    circuit = qml.QNode(parity, CalledMixed(wires=2))
    value = bellhop.qjit(circuit)(jnp.float32(0.3))
    assert value.dtype == np.float32
    np.testing.assert_allclose(value, np.cos(0.3), rtol=1e-6)


def test_programs_in_several_threads_have_the_device_one_by_one():
    device = CountingDevice(wires=2)
    inside, most = [], []
    execute = device._simulator.execute

    def alone(*args):
        inside.append(1)
        most.append(len(inside))
        try:
            return execute(*args)
        finally:
            inside.pop()

    device._simulator.execute = alone
    compiled = bellhop.qjit(qml.QNode(parity, device))
    compiled(0.0)
    results = {}

    def run(number):
        results[number] = [float(compiled(0.1 * number)) for _ in range(10)]

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1
    for number, values in results.items():
        np.testing.assert_allclose(values, np.cos(0.1 * number), atol=1e-10)


def test_transforms_of_the_qnode():
    device = CalledMixed(wires=1)

    def circuit(x):
        qml.RX(x, 0)
        return qml.expval(qml.Z(0))

    damping = qml.noise.partial_wires(qml.AmplitudeDamping, 0.4)
    model = qml.NoiseModel({qml.noise.op_eq(qml.RX): damping})
    noisy = qml.noise.add_noise(qml.QNode(circuit, device), model)
    assert_as_uncompiled(noisy, 0.4)


class CustomError(Exception):
    """A user's own."""


def test_exception_is_the_devices_own():
    device = CountingDevice(wires=1)
    failure = CustomError("the queue is full")

    def fail(*_, **__):
        raise failure

    @qml.qnode(device)
    def circuit(x):
        qml.RX(x, 0)
        return qml.expval(qml.Z(0))

    compiled = bellhop.qjit(circuit)
    np.testing.assert_allclose(compiled(0.3), np.cos(0.3))
    device.execute = fail
    with pytest.raises(CustomError) as raised:
        compiled(0.3)
    assert raised.value is failure
    line = circuit.func.__code__.co_firstlineno
    (note,) = failure.__notes__
    assert note.startswith("raised in the QNode 'circuit' (")
    assert f"test_python_devices.py:{line}) on counting, called from " in note


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (0.5 + 1j, r"returned complex numbers for expval\(Z\(0\)\), expected the dtype"),
        (np.zeros(3), r"returned an array of shape \(3,\) for expval\(Z\(0\)\), expected the"),
    ],
)
def test_what_the_device_returns_is_of_the_type_that_is_measured(result, message):
    device = CountingDevice(wires=1)
    device.execute = lambda circuits, **_: tuple(result for _ in circuits)
    with pytest.raises(bellhop.CircuitError, match=message):
        bellhop.qjit(qml.QNode(lambda: qml.expval(qml.Z(0)), device))()


def loop_of_computed_length(x):
    bellhop.for_loop(0, jnp.int32(x))(lambda i: qml.RX(0.1, 0) and None)()
    return qml.expval(qml.Z(0))


def while_loop(x):
    bellhop.while_loop(lambda y: y < 1)(lambda y: (qml.RX(y, 0), 2 * y)[1])(x)
    return qml.expval(qml.Z(0))


def measured_computed_wire(x):
    qml.measure(jnp.int32(x))
    return qml.expval(qml.Z(0))


def computed_power(x):
    qml.pow(qml.RX(0.1, 0), x)
    return qml.expval(qml.Z(0))


def outcome_as_angle(x):
    qml.RX(x, 0)
    qml.RX(bellhop.measure(0), 0)
    return qml.expval(qml.Z(0))


def multiple_of_an_outcome_as_angle(x):
    qml.RX(x * bellhop.measure(0), 0)
    return qml.expval(qml.Z(0))


REFUSED = {
    loop_of_computed_length: "the circuit has a for_loop with traced bounds, expected",
    while_loop: "the circuit has a while_loop, expected a static trip count, as tapes for devices",
    measured_computed_wire: "a mid-circuit measurement is on a traced wire, which is not supported",
    computed_power: "is traced, which is not supported on devices that run in Python. Make the",
    outcome_as_angle: "a parameter of RX is the outcome of a mid-circuit measurement, which is",
    multiple_of_an_outcome_as_angle: "a parameter of RX is the outcome of a mid-circuit measureme",
}


@pytest.mark.parametrize("function", REFUSED)
def test_what_no_tape_can_hold(function):
    qnode = qml.QNode(function, CalledMixed(wires=2))
    with pytest.raises(bellhop.CompileError, match=r"the QNode '\w+' \(.*:\d+\): ") as raised:
        bellhop.qjit(qnode)(0.3)
    assert REFUSED[function] in str(raised.value)


def test_the_matrix_of_an_observable_has_no_derivative():
    @qml.qnode(CalledMixed(wires=1))
    def circuit(matrix):
        return qml.expval(qml.Hermitian(matrix, 0))

    compiled = bellhop.qjit(jax.grad(circuit))
    with pytest.raises(bellhop.DifferentiableCompileError, match="to the matrix of Hermitian"):
        compiled(np.eye(2))


def test_branch_on_an_outcome_measures_nothing():
    @qml.qnode(CalledMixed(wires=2))
    def circuit():
        bellhop.cond(bellhop.measure(0), lambda: qml.expval(qml.Z(0)))()
        return qml.expval(qml.Z(0))

    with pytest.raises(
        TypeError, match="a branch on a mid-circuit outcome contains the measurement"
    ):
        bellhop.qjit(circuit)()
