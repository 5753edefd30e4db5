"""Circuits on default.qubit, traced into the program, against PennyLane without qjit."""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop


def on_default_qubit(function: Callable[..., Any], wires: Any = 2, **options: Any) -> qml.QNode:
    return qml.QNode(function, qml.device("default.qubit", wires=wires), **options)


def gates_of_every_kind(x: Any) -> Any:
    qml.StatePrep(np.array([0.6, 0, 0, 0.8]), wires=[0, 1])
    qml.Hadamard(0)
    qml.Rot(x[0], x[1], 0.3, wires=1)
    qml.CRot(x[0], 0.2, x[1], wires=[1, 0])
    qml.PauliRot(x[1], "XY", wires=[1, 0])
    qml.ctrl(qml.RZ(x[0], 0), 1, control_values=[0])
    qml.adjoint(qml.S(0))
    qml.adjoint(qml.RX(x[1], 0))
    qml.pow(qml.RY(x[0], 1), 3)
    qml.exp(qml.X(0) @ qml.Z(1), -1j * x[1])
    qml.QubitUnitary(qml.IsingXX.compute_matrix(0.7), wires=[0, 1])
    qml.GlobalPhase(x[0])
    qml.Barrier([0, 1])
    qml.IQP(x, num_wires=2, pattern=[[[0]], [[0, 1]]])
    return qml.state()


SPARSE = qml.Z(0).sparse_matrix()


def measurements_of_every_kind(x: Any) -> Any:
    qml.RX(x[0], 0)
    qml.CRY(x[1], wires=[0, 1])
    hermitian = qml.Hermitian(np.array([[1, 2j], [-2j, 0.5]]), wires=1)
    return {
        "expval": [
            qml.expval(qml.Z(0) @ qml.Y(1)),
            qml.expval(hermitian),
            qml.expval(qml.Hamiltonian([x[1], x[0]], [qml.X(0), qml.Z(0) @ qml.Z(1)])),
            qml.expval(x[1] * (qml.X(0) + 2 * qml.Z(0)) @ qml.Y(1)),
            qml.expval(qml.SparseHamiltonian(SPARSE, 0)),
            qml.expval(qml.Projector([1], wires=1)),
        ],
        "var": (qml.var(qml.Y(0)), qml.var(qml.X(0) @ hermitian)),
        "probs": [qml.probs(), qml.probs(wires=1), qml.probs(op=qml.X(0))],
        "state": qml.state(),
        "density": qml.density_matrix(1),
        "entropy": qml.vn_entropy(0),
        "purity": qml.purity(1),
    }


def test_observables_that_differ_by_what_the_program_computes(assert_close: Any) -> None:
    def circuit(x: Any) -> Any:
        qml.RX(0.3, 0)
        sums = [c * (qml.X(0) + c * qml.Z(0)) @ qml.Y(1) for c in (x[0], x[1])]
        matrix = x[0] * np.diag([1, 0]) + x[1] * np.diag([0, 1])
        hermitian = [qml.Hermitian(matrix + c * np.ones((2, 2)), 0) for c in (0, 1)]
        return [qml.expval(o) for o in sums + hermitian], [qml.var(o) for o in sums + hermitian]

    node = on_default_qubit(circuit)
    compiled = bellhop.qjit(node)
    for point in ([0.4, 0.7], [-1.1, 0.2]):
        assert_close(compiled(jnp.array(point)), node(np.array(point)))


def test_derivative_by_a_matrix_with_equal_eigenvalues(assert_close: Any) -> None:
    def circuit(x: Any) -> Any:
        qml.RX(0.3, 0)
        matrix = qml.Hermitian(x * jnp.eye(2) + jnp.diag(jnp.stack([x, x])), 0)
        return qml.expval(matrix), qml.var(matrix @ qml.X(1))

    compiled = bellhop.qjit(bellhop.jacobian(on_default_qubit(circuit)))
    assert_close(compiled(0.5), (jnp.array(2.0), jnp.array(4.0)))


def wires_of_any_labels(x: Any) -> Any:
    qml.RX(x[0], "b")
    qml.CNOT(["b", 7])
    qml.RY(x[1], 7)
    return qml.expval(qml.Z("b") @ qml.X(7)), qml.probs(wires=[7, "b"]), qml.state()


@pytest.mark.parametrize(
    ("function", "wires"),
    [
        pytest.param(gates_of_every_kind, 2, marks=pytest.mark.large),
        (measurements_of_every_kind, 2),
        (measurements_of_every_kind, None),
        (wires_of_any_labels, [7, "b"]),
        (wires_of_any_labels, ["b", "c", 7]),
    ],
)
def test_value(assert_close: Any, function: Any, wires: Any) -> None:
    node = on_default_qubit(function, wires)
    compiled = bellhop.qjit(node)
    for point in ([0.4, 0.7], [-1.1, 0.2]):
        assert_close(compiled(jnp.array(point)), node(np.array(point)))


@pytest.mark.large
def test_precision_of_32_bits() -> None:
    nodes = [on_default_qubit(f) for f in (gates_of_every_kind, measurements_of_every_kind)]
    expected = [node(np.array([0.4, 0.7])) for node in nodes]
    with jax.enable_x64(False):
        actual = [bellhop.qjit(node)(jnp.array([0.4, 0.7])) for node in nodes]
    for one, other in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert one.dtype in (np.float32, np.complex64)
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


def test_broadcast_parameters(assert_close: Any) -> None:
    def circuit(x: Any) -> Any:
        qml.RX(x, 0)
        qml.RY(0.3, 1)
        qml.CNOT([0, 1])
        return qml.expval(qml.Z(1)), qml.probs(wires=0)

    x = np.linspace(0, 1, 3)
    node = on_default_qubit(circuit)
    assert_close(bellhop.qjit(node)(jnp.array(x)), node(x))


def layered(x: Any, y: Any) -> Any:
    """A loop, a conditional in it, and a loop that the program ends."""

    @bellhop.for_loop(0, 3)
    def layer(i: Any, angle: Any) -> Any:
        qml.RX(angle, 0)
        bellhop.cond(angle > 0.8, lambda: qml.CRY(y * i, [0, 1]), lambda: qml.RY(x, 1))()
        return angle + x * 0.5

    angle = layer(y)

    @bellhop.while_loop(lambda z: z < 2)
    def grow(z: Any) -> Any:
        qml.RZ(z, 0)
        qml.RX(z, 0)
        return z * 1.6

    qml.RY(grow(angle * 0.3), 1)
    return qml.expval(qml.Z(0) @ qml.X(1))


def layered_in_python(x: Any, y: Any) -> Any:
    angle = y
    for i in range(3):
        qml.RX(angle, 0)
        if angle > 0.8:
            qml.CRY(y * i, [0, 1])
        else:
            qml.RY(x, 1)
        angle = angle + x * 0.5
    z = angle * 0.3
    while z < 2:
        qml.RZ(z, 0)
        qml.RX(z, 0)
        z = z * 1.6
    qml.RY(z, 1)
    return qml.expval(qml.Z(0) @ qml.X(1))


POINT = 0.4, 0.7


def test_control_flow(assert_close: Any) -> None:
    compiled, reference = map(on_default_qubit, (layered, layered_in_python))
    assert_close(bellhop.qjit(compiled)(*POINT), reference(*POINT))
    forward = bellhop.qjit(jax.jacfwd(compiled, argnums=(0, 1)))(*POINT)
    variables = [qml.numpy.array(value, requires_grad=True) for value in POINT]
    assert_close(forward, qml.jacobian(reference, argnums=[0, 1])(*variables))


def on_computed_wires(x: Any, y: Any) -> Any:
    @bellhop.for_loop(0, 3)
    def layer(i: Any) -> None:
        qml.RX(x + i, i)
        qml.CRot(x, y, 0.3, [i, (i + 1) % 3])
        qml.ctrl(qml.RY(y, i), (i + 2) % 3, control_values=[0])
        qml.CNOT([2 - i, (4 - i) % 3])
        qml.IsingXY(x, [0, 1 + i % 2])

    layer()
    return qml.expval(qml.Z(0) @ qml.X(1) @ qml.Y(2)), qml.probs()


def on_wires_of_python(x: Any, y: Any) -> Any:
    for i in range(3):
        qml.RX(x + i, i)
        qml.CRot(x, y, 0.3, [i, (i + 1) % 3])
        qml.ctrl(qml.RY(y, i), (i + 2) % 3, control_values=[0])
        qml.CNOT([2 - i, (4 - i) % 3])
        qml.IsingXY(x, [0, 1 + i % 2])
    return qml.expval(qml.Z(0) @ qml.X(1) @ qml.Y(2)), qml.probs()


@pytest.mark.large
def test_wires_that_the_program_computes(assert_close: Any) -> None:
    ours, reference = (on_default_qubit(f, 3) for f in (on_computed_wires, on_wires_of_python))
    assert_close(bellhop.qjit(ours)(*POINT), reference(*POINT))
    first = bellhop.grad(lambda *args: ours(*args)[0])
    expected = qml.grad(lambda x: reference(x, 0.7)[0])(qml.numpy.array(0.4))
    assert_close(bellhop.qjit(first)(*POINT), expected)


@pytest.mark.parametrize("wires", [(0, 0), (-1, 0), (2, 1)])
def test_computed_wires_that_are_not_there(wires: Any) -> None:
    def circuit(i: Any, j: Any) -> Any:
        qml.CNOT([i, j])
        return qml.expval(qml.Z(0))

    with pytest.raises(bellhop.CircuitError, match="'CNOT' .*(is not in|expected different)"):
        bellhop.qjit(on_default_qubit(circuit))(*wires)


class NoGate(qml.operation.Operation):
    """An operation that nobody knows."""

    num_wires = 1


class NoObservable(qml.operation.Operator):
    """An observable that nobody knows."""

    num_wires = 1


def observable_before_loop(x: Any) -> Any:
    made = qml.Z(0) @ qml.X(1)
    bellhop.for_loop(0, 3)(lambda i: qml.RX(x, wires=0) and None)()
    return qml.expval(made)


def then_measured(gate: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def body(x: Any) -> Any:
        gate(x)
        return qml.expval(qml.Z(0))

    return body


ERRORS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "unknown gate": (then_measured(lambda x: NoGate(0)), "the device does not apply NoGate"),
    "unknown wire": (
        then_measured(lambda x: qml.RX(x, 5)),
        "there is no wire 5 on the device; its wires are [0, 1]",
    ),
    "unknown wire of an observable": (lambda x: qml.expval(qml.Z(7)), "there is no wire 7"),
    "sample": (
        lambda x: qml.sample(wires=0),
        "sample needs shots, and the QNode has none. Set them",
    ),
    "observable made before a loop": (
        observable_before_loop,
        "Z(0) @ X(1) is used in a measurement or in another operator, but is",
    ),
    "gate in a scan": (
        then_measured(lambda x: jax.jit(lambda y: qml.RX(y, 0) and y)(x)),
        "RX is applied inside a JAX transformation",
    ),
    "nothing returned": (lambda x: None, "the quantum function returned no value"),
    "gate of qutrits": (
        then_measured(lambda x: qml.TRX(x, wires=0)),
        "the device does not apply TRX, and PennyLane has no decomposition of TRX",
    ),
    "power of a channel": (
        then_measured(lambda x: qml.pow(qml.BitFlip(x, 0), 2.5)),
        "the circuit has BitFlip**2.5, and channels have no inverse and no controlled form",
    ),
    "observable without a matrix": (
        lambda x: qml.expval(NoObservable(0)),
        "bellhop does not support the observable NoObservable, which has no matrix",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_error_names_the_circuit(name: str) -> None:
    body, message = ERRORS[name]

    @qml.qnode(qml.device("default.qubit", wires=2))
    def failing(x: Any) -> Any:
        return body(x)

    where = r"the QNode 'failing' \(.*test_default_qubit\.py:\d+\)"
    with pytest.raises(bellhop.CompileError, match=f"{where}.*{re.escape(message)}"):
        bellhop.qjit(failing)(0.3)


def test_a_gate_of_qutrits_is_refused_in_regions() -> None:
    body = then_measured(lambda x: qml.TRX(x, wires=0))
    circuit = qml.QNode(body, qml.device("default.qubit", 1))
    with pytest.raises(bellhop.CompileError, match="the device does not apply TRX"):
        bellhop.qjit(bellhop.accelerate(circuit))(0.3)


@pytest.mark.parametrize("device", ["default.qubit", "default.mixed"])
@pytest.mark.parametrize("measures", [False, True])
@pytest.mark.parametrize("prepared", ["amplitudes", "matrix"])
def test_a_state_that_is_not_normalized_is_left_so(
    assert_close: Any, device: str, measures: bool, prepared: str
) -> None:
    @qml.qnode(qml.device(device, wires=2))
    def circuit(values):
        if prepared == "matrix":
            qml.QubitUnitary(jnp.diag(values), wires=0, unitary_check=False)
        else:
            qml.StatePrep(values, wires=0, validate_norm=False)
        qml.RY(0.3, wires=0)
        if measures:
            qml.measure(1)
            return qml.expval(qml.Z(0)), qml.probs(wires=0), qml.density_matrix(0)
        return qml.state(), qml.expval(qml.Z(0)), qml.var(qml.Z(0)), qml.density_matrix(0)

    values = jnp.array([0.5, 0.0])
    for result, expected in zip(bellhop.qjit(circuit)(values), circuit(values), strict=True):
        assert_close(result, expected)


def test_the_state_of_a_drawn_outcome_is_normalized() -> None:
    @bellhop.qjit
    @qml.qnode(qml.device("default.qubit", wires=2), mcm_method="single-branch-statistics")
    def circuit(x):
        qml.RY(x, wires=0)
        qml.measure(0)
        return qml.state()

    np.testing.assert_allclose(np.linalg.norm(circuit(0.4)), 1.0)
