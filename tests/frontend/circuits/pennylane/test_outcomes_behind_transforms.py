"""Transforms that need the whole circuit, of QNodes and functions that return outcomes."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

TRANSFORMS = {
    "compile": qml.compile,
    "map_wires": lambda node: qml.map_wires(node, {0: 1, 1: 0}),
    "simplify": qml.simplify,
    "undo_swaps": qml.transforms.undo_swaps,
    "transpile": lambda node: qml.transforms.transpile(node, coupling_map=[(0, 1)]),
    "diagonalize": qml.transforms.diagonalize_measurements,
    "split": qml.transforms.split_to_single_terms,
    "defer": qml.defer_measurements,
    "insert": lambda node: qml.noise.insert(node, qml.PhaseShift, 0.0),
}


def circuit(x: Any) -> Any:
    qml.X(0)
    qml.RX(x, 1)
    first, second = bellhop.measure(0), qml.measure(0)
    bellhop.cond(first, lambda: qml.RX(1.0, 1))()
    return {
        "outcome": first,
        "z": (qml.expval(qml.Z(1)), first + 2 * second),
        "not": ~first,
        "and": first & second,
        "number": jnp.sin(x),
    }


@pytest.mark.parametrize("of", ["QNode", "function"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_results_are_those_without_the_transform(name: str, of: str) -> None:
    device, transform = qml.device("lightning.qubit", wires=4), TRANSFORMS[name]
    if of == "QNode":
        node = transform(qml.QNode(circuit, device))
    else:
        node = qml.QNode(transform(circuit), device)
    found = bellhop.qjit(node)(0.4)
    z = np.cos(1.4)
    expected = {"outcome": 1, "z": (z, 3), "not": 0, "and": 1, "number": np.sin(0.4)}
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-7)


def test_clifford_gates_around_an_outcome() -> None:
    def measured(x: Any) -> Any:
        qml.X(0)
        qml.RX(x, 1)
        return bellhop.measure(0), qml.expval(qml.Z(1))

    device = qml.device("lightning.qubit", wires=2)
    for node in (
        qml.clifford_t_decomposition(qml.QNode(measured, device), epsilon=1e-2),
        qml.QNode(qml.clifford_t_decomposition(measured, epsilon=1e-2), device),
    ):
        outcome, z = bellhop.qjit(node)(0.4)
        assert outcome
        np.testing.assert_allclose(z, np.cos(0.4), atol=2e-2)


def test_a_transform_of_a_function_reaches_its_loops() -> None:
    def looping(x: Any) -> Any:
        bellhop.for_loop(0, 3)(lambda i: qml.RX(x * i, 0))()
        return qml.expval(qml.Z(0))

    node = qml.QNode(qml.map_wires(looping, {0: 1}), qml.device("lightning.qubit", wires=2))
    value, slope = bellhop.qjit(bellhop.value_and_grad(node))(0.4)
    np.testing.assert_allclose((value, slope), (np.cos(1.2), -3 * np.sin(1.2)), atol=1e-12)


def observables(x: Any) -> Any:
    qml.RX(x, 0)
    outcome = bellhop.measure(0)
    return outcome, qml.expval(qml.X(1)), qml.expval(qml.Z(1))


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (qml.transforms.split_non_commuting, "runs the circuit 2 times, and the quantum function"),
        (
            lambda node: qml.noise.fold_global(node, 1),
            "fold_global does not support circuits with bellhop.measure",
        ),
    ],
)
def test_what_has_no_single_outcome_is_an_error(transform: Any, message: str) -> None:
    node = transform(qml.QNode(observables, qml.device("lightning.qubit", wires=2)))
    with pytest.raises(bellhop.CompileError, match=message):
        bellhop.qjit(node)(0.4)


@pytest.mark.hessian
@pytest.mark.filterwarnings("ignore:The two-qubit decomposition may not")
@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
@pytest.mark.parametrize("name", ["unitary_to_rot", "decompose"])
@pytest.mark.parametrize("matrix", ["product", "entangling", "one qubit"])
def test_gradient_where_a_decomposition_is_singular(matrix: str, name: str, device: str) -> None:
    gate_set = {qml.RX, qml.RY, qml.RZ, qml.CNOT, qml.GlobalPhase}
    transforms = {
        "unitary_to_rot": qml.transforms.unitary_to_rot,
        "decompose": lambda node: qml.transforms.decompose(node, gate_set=gate_set),
    }

    def rotation(x: Any) -> Any:
        c, s = jnp.cos(x / 2), -1j * jnp.sin(x / 2)
        return jnp.array([[c, s], [s, c]])

    def unitary(x: Any) -> Any:
        if matrix == "one qubit":
            return rotation(x)
        product = jnp.kron(rotation(x), rotation(x))
        words = jnp.kron(*[jnp.array([[0, 1], [1, 0]])] * 2)
        turn = jnp.cos(x / 2) * jnp.eye(4) - 1j * jnp.sin(x / 2) * words
        return product if matrix == "product" else turn @ product

    def function(x: Any) -> Any:
        qml.RY(0.5, 0)
        qml.RX(0.7, 1)
        qml.QubitUnitary(unitary(x), [0] if matrix == "one qubit" else [0, 1])
        return qml.expval(qml.Y(0)), qml.expval(qml.X(0) @ qml.Y(1))

    def dense(x: Any) -> Any:
        state = jnp.kron(
            jnp.array([np.cos(0.25), np.sin(0.25)]), jnp.array([np.cos(0.35), -1j * np.sin(0.35)])
        )
        whole = jnp.kron(unitary(x), jnp.eye(2)) if matrix == "one qubit" else unitary(x)
        state = whole @ state
        y, x_ = np.array([[0, -1j], [1j, 0]]), np.array([[0, 1], [1, 0]])
        return [
            jnp.real(jnp.vdot(state, observable @ state))
            for observable in (np.kron(y, np.eye(2)), np.kron(x_, y))
        ]

    node = transforms[name](qml.QNode(function, qml.device(device, wires=2)))
    program = bellhop.qjit(lambda x: (node(x), jax.jacobian(node)(x)))
    for x in (0.3, 0.0):
        values, slopes = program(x)
        np.testing.assert_allclose(values, dense(x), atol=1e-6)
        np.testing.assert_allclose(slopes, jax.jacfwd(dense)(x), atol=1e-6)


GATES = {qml.RX, qml.RY, qml.RZ, qml.CNOT, qml.GlobalPhase}


def turned_by_product(x: Any) -> Any:
    c, s = jnp.cos(x / 2), -1j * jnp.sin(x / 2)
    rotation = jnp.array([[c, s], [s, c]])
    qml.RY(0.5, 0)
    qml.QubitUnitary(jnp.kron(rotation, rotation), [0, 1])
    return qml.expval(qml.Y(0) @ qml.Z(1))


# The slope of -sin(x) * cos(0.5) * cos(x).
def slope_of_product(x: float) -> float:
    return -float(np.cos(0.5) * np.cos(2 * x))


@pytest.mark.filterwarnings("ignore:The two-qubit decomposition may not")
def test_gradient_of_a_decomposed_product_behind_another_transform() -> None:
    node = qml.QNode(turned_by_product, qml.device("lightning.qubit", wires=2))
    node = qml.transforms.decompose(qml.transforms.undo_swaps(node), gate_set=GATES)
    slope = bellhop.qjit(bellhop.grad(node))(0.3)
    np.testing.assert_allclose(slope, slope_of_product(0.3), atol=1e-9)


@pytest.mark.filterwarnings("ignore:The two-qubit decomposition may not")
def test_gradient_of_a_decomposed_product_with_shots() -> None:
    device = qml.device("lightning.qubit", wires=2)
    node = qml.QNode(turned_by_product, device, diff_method="parameter-shift")
    node = qml.transforms.decompose(qml.set_shots(node, 20_000), gate_set=GATES)
    slope = bellhop.qjit(bellhop.grad(node), seed=3)(0.3)
    np.testing.assert_allclose(slope, slope_of_product(0.3), atol=0.1)
    with pytest.raises(
        bellhop.CompileError, match="decompose of a traced matrix is differentiated twice"
    ):
        bellhop.qjit(bellhop.grad(bellhop.grad(node)))(0.3)


def test_a_deferred_measurement_with_postselection() -> None:
    def circuit(x: Any) -> Any:
        qml.RX(x, 0)
        qml.CNOT([0, 1])
        outcome = qml.measure(0, postselect=1)
        qml.cond(outcome, qml.RX)(0.3, 1)
        return qml.expval(qml.Z(1)), qml.probs(wires=[0, 1])

    node = qml.QNode(circuit, qml.device("lightning.qubit", wires=3))
    z, probs = bellhop.qjit(qml.defer_measurements(node))(0.7)
    np.testing.assert_allclose(z, -np.cos(0.3), atol=1e-9)
    np.testing.assert_allclose(probs, [0, 0, np.sin(0.15) ** 2, np.cos(0.15) ** 2], atol=1e-9)


def test_a_projector_is_no_gate_of_a_deferred_circuit() -> None:
    def circuit() -> Any:
        qml.Projector([1], 0)
        return qml.expval(qml.Z(0))

    node = qml.QNode(circuit, qml.device("lightning.qubit", wires=3))
    with pytest.raises(bellhop.CompileError, match="the observable Projector"):
        bellhop.qjit(qml.defer_measurements(node))()
