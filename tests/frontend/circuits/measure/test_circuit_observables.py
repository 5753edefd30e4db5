"""Expectation values and variances of every kind of observable."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from scipy.stats import unitary_group

import bellhop

_U = unitary_group.rvs(4, random_state=1)
MATRIX = _U + _U.conj().T
ONE = np.array([[0.3, 0.1 - 0.4j], [0.1 + 0.4j, -0.6]])
SPARSE = qml.Hamiltonian([0.2, -0.7], [qml.X(0) @ qml.Z(1), qml.Y(1)]).sparse_matrix()

OBSERVABLES = {
    "X": lambda: qml.X(1),
    "Y": lambda: qml.Y(1),
    "Z": lambda: qml.Z(2),
    "Hadamard": lambda: qml.Hadamard(1),
    "Identity": lambda: qml.Identity(1),
    "Identity on wires": lambda: qml.Identity([0, 1]),
    "Hermitian": lambda: qml.Hermitian(MATRIX, wires=[2, 0]),
    "Hermitian of one wire": lambda: qml.Hermitian(ONE, wires=1),
    "Projector of a basis state": lambda: qml.Projector([1, 0], wires=[2, 0]),
    "Projector of a state": lambda: qml.Projector(np.array([0.6, 0.8j]), wires=[1]),
    "product": lambda: qml.X(0) @ qml.Y(1) @ qml.Z(3),
    "product with Hadamard": lambda: qml.X(0) @ qml.Hadamard(2),
    "product with Identity": lambda: qml.X(0) @ qml.Identity(1) @ qml.Z(3),
    "product of Identities": lambda: qml.Identity(0) @ qml.Identity(1),
    "product with Hermitian": lambda: qml.X(1) @ qml.Hermitian(MATRIX, wires=[2, 0]),
    "product with Projector": lambda: qml.X(1) @ qml.Projector([1], wires=[2]),
    "product of products": lambda: (qml.X(0) @ qml.Z(1)) @ (qml.Y(2) @ qml.Z(3)),
    "overlapping Paulis": lambda: qml.prod(qml.X(0), qml.Z(1), qml.X(0)),
    "overlapping Paulis with sign": lambda: qml.prod(qml.X(0), qml.Y(1), qml.X(0), qml.Y(1)),
    "overlapping Hermitian": lambda: qml.prod(
        qml.Hermitian(ONE, 1), qml.Z(0), qml.Hermitian(ONE, 1)
    ),
    "square": lambda: qml.pow(qml.Hermitian(ONE, 1), 2),
    "product with a sum": lambda: qml.prod(qml.X(0) + 0.5 * qml.Z(0), qml.Y(1)),
    "product of sums": lambda: qml.prod(qml.X(0) + 0.5 * qml.Z(0), qml.Y(1) - 2 * qml.Z(2)),
    "product with a scaled one": lambda: qml.prod(qml.s_prod(0.5, qml.X(0)), qml.Y(1)),
    "scaled": lambda: 0.3 * qml.X(1),
    "scaled twice": lambda: qml.s_prod(2.0, qml.s_prod(0.3, qml.Y(1))),
    "negated": lambda: -qml.X(1),
    "sum": lambda: qml.X(0) + qml.Z(1) @ qml.Z(2),
    "sum of one twice": lambda: qml.X(0) + qml.X(0),
    "sum of sums": lambda: 2 * (qml.X(0) + 0.5 * (qml.Z(1) - qml.Y(2))),
    "sum with Identity": lambda: 0.4 * qml.Identity(0) + qml.Z(1),
    "sum with Hermitian": lambda: 0.4 * qml.Hermitian(ONE, 0) + qml.Z(1) @ qml.X(2),
    "sum with overlapping product": lambda: (
        0.4 * qml.prod(qml.X(0), qml.Y(0), qml.Z(0)) * 1j + qml.Z(1)
    ),
    "Hamiltonian": lambda: qml.Hamiltonian([0.2, -0.7], [qml.X(0) @ qml.Z(1), qml.Hadamard(3)]),
    "LinearCombination": lambda: qml.ops.LinearCombination([0.2], [qml.X(0)]),
    "Hamiltonian with grouping": lambda: qml.Hamiltonian(
        [0.2, -0.7, 0.1], [qml.X(0), qml.X(1), qml.Z(1)], grouping_type="qwc"
    ),
    "SparseHamiltonian": lambda: qml.SparseHamiltonian(SPARSE, [0, 1]),
}


def prepare(x: Any) -> None:
    for wire in range(4):
        qml.RY(x + 0.4 * wire, wires=wire)
        qml.RZ(0.7 - 0.2 * wire, wires=wire)
    for wire in range(3):
        qml.CNOT(wires=[wire, wire + 1])


@pytest.mark.parametrize("name", OBSERVABLES)
def test_expectation_value_and_derivative(compare_derivative: Any, name: str) -> None:
    def circuit(x: Any) -> Any:
        prepare(x)
        # The second keeps Autograd from a complaint where the first is constant.
        return qml.expval(OBSERVABLES[name]()), qml.expval(qml.Z(0))

    compare_derivative(circuit, 0.3)


# Several in one program; default.qubit has no variance of a SparseHamiltonian.
@pytest.mark.parametrize("first", range(0, len(OBSERVABLES) - 1, 6))
def test_variances(compare: Any, first: int) -> None:
    def circuit(x: Any) -> Any:
        prepare(x)
        names = [*OBSERVABLES][first : first + 6]
        return [qml.var(OBSERVABLES[name]()) for name in names if name != "SparseHamiltonian"]

    compare(circuit, 0.3)


# Autograd, for the reference, does not understand coefficient * observable.
scaled = qml.s_prod

TRACED = {
    "Hamiltonian": lambda c: qml.Hamiltonian([c[0], c[1]], [qml.X(0) @ qml.Z(1), qml.Y(3)]),
    "Hamiltonian of an array": lambda c: qml.Hamiltonian(c, [qml.X(0), qml.Y(3), qml.Z(1)]),
    "dot": lambda c: qml.dot(c, [qml.X(0), qml.Y(3) @ qml.Z(0), qml.Hadamard(1)]),
    "scaled": lambda c: scaled(c[0], qml.X(0)),
    "sum": lambda c: scaled(c[0], qml.X(0)) + scaled(c[1] ** 2, qml.Z(1) @ qml.Z(2)),
    "one coefficient twice": lambda c: scaled(c[0], qml.X(0)) + scaled(c[0], qml.Z(1)),
    "nested": lambda c: scaled(c[0], qml.X(0) + scaled(0.5, qml.Z(1) - qml.Y(2))),
    "product with scaled ones": lambda c: qml.prod(scaled(c[0], qml.X(0)), scaled(c[1], qml.Z(1))),
    "product of sums": lambda c: qml.prod(
        qml.X(0) + scaled(c[1], qml.Z(0)), scaled(c[0], qml.Y(1))
    ),
    "overlapping product": lambda c: scaled(c[0], qml.prod(qml.X(0), qml.Y(1), qml.X(0))),
}


@pytest.mark.parametrize("name", TRACED)
def test_traced_coefficients(compare_derivative: Any, name: str) -> None:
    def circuit(c: Any, x: Any) -> Any:
        prepare(x)
        return qml.expval(TRACED[name](c)), qml.expval(qml.Z(0))

    compare_derivative(circuit, [0.2, -0.7, 1.3], 0.3)


def test_traced_hermitian_matrix(assert_close: Any, lightning: Any, reference: Any) -> None:
    def circuit(matrix: Any) -> Any:
        prepare(0.3)
        return qml.expval(qml.Hermitian(matrix, wires=[2, 0])), qml.var(
            qml.Hermitian(matrix, wires=[0, 1])
        )

    assert_close(bellhop.qjit(lightning(circuit))(jnp.array(MATRIX)), reference(circuit)(MATRIX))


@pytest.mark.large
def test_derivative_beside_a_traced_hermitian_matrix(assert_close: Any, lightning: Any) -> None:
    def circuit(matrix: Any, x: Any) -> Any:
        prepare(x)
        return qml.expval(qml.Hermitian(matrix, wires=[2, 0]))

    ours = bellhop.qjit(bellhop.grad(lightning(circuit), argnums=1))
    theirs = jax.jit(jax.grad(qml.QNode(circuit, qml.device("default.qubit")), argnums=1))
    assert_close(ours(MATRIX, 0.3), theirs(MATRIX, 0.3))


def test_tracer_times_observable(assert_close: Any, lightning: Any, reference: Any) -> None:
    def circuit(c: Any) -> Any:
        prepare(0.3)
        return qml.expval(c * qml.X(0) - qml.Z(1) * c)

    assert_close(bellhop.qjit(lightning(circuit))(0.7), reference(circuit)(0.7))


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
@pytest.mark.parametrize(
    "observable",
    [
        lambda: 1j * qml.Z(0),
        lambda: qml.X(0) @ qml.Z(0),
        lambda: qml.Z(1) + qml.prod(qml.X(0), qml.Z(0), qml.Y(1)),
        lambda: qml.S(0),
        lambda: qml.T(0) @ qml.Z(1),
        lambda: qml.RX(jnp.sin(0.3), 0),
    ],
)
def test_what_is_not_hermitian_is_refused(device: str, observable: Any) -> None:
    """The imaginary part of the result was dropped."""

    def circuit(x: Any) -> Any:
        qml.RX(x, wires=0)
        return qml.expval(observable())

    qnode = qml.QNode(circuit, qml.device(device, wires=2))
    for compiled in (bellhop.qjit(qnode), bellhop.qjit(qml.set_shots(qnode, 10))):
        with pytest.raises(
            bellhop.CompileError, match="the observable .*, which is not .*Hermitian"
        ):
            compiled(0.3)


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
@pytest.mark.parametrize(
    "observable",
    [
        lambda: qml.X(0) @ qml.Z(0) + qml.Z(0) @ qml.X(0) + qml.Y(0),
        lambda: -1j * qml.prod(qml.X(0), qml.Z(0)),
        lambda: 1j * qml.Hermitian(-1j * ONE, wires=0),
    ],
)
def test_imaginary_coefficients_of_a_hermitian_observable(device: str, observable: Any) -> None:
    def circuit(x: Any) -> Any:
        qml.RX(x, wires=0)
        return qml.expval(observable())

    value = bellhop.qjit(qml.QNode(circuit, qml.device(device, wires=2)))(0.3)
    state = np.array([np.cos(0.15), -1j * np.sin(0.15)])
    expected = state.conj() @ qml.matrix(observable()) @ state
    np.testing.assert_allclose(value, expected.real, atol=1e-9)


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
def test_observables_of_nothing(device: str) -> None:
    """A sum of nothing is 0, and a product of nothing 1; PennyLane says so where it says at all."""
    sums = qml.Hamiltonian([], []), qml.sum(), 2 * qml.Hamiltonian([], []), qml.Z(0) @ qml.sum()
    observables = *sums, qml.prod(), qml.Z(0) + qml.Hamiltonian([], [])

    @bellhop.qjit
    @bellhop.jacobian
    @qml.qnode(qml.device(device, wires=1))
    def slopes(x: Any) -> Any:
        qml.RX(x, 0)
        return [qml.expval(observable) for observable in observables]

    @bellhop.qjit
    @qml.qnode(qml.device(device, wires=1))
    def means() -> Any:
        qml.RX(0.3, 0)
        return *map(qml.expval, observables), qml.var(qml.sum())

    assert np.allclose(means(), [0, 0, 0, 0, 1, np.cos(0.3), 0])
    assert np.allclose(slopes(0.3), [0, 0, 0, 0, 0, -np.sin(0.3)])


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
def test_what_is_hermitian_together_is_measured_together(device: str) -> None:
    matrix = np.array([[2, 0], [0, 0]])

    def circuit(x: Any) -> Any:
        qml.RX(x, wires=0)
        together = qml.S(0) + qml.adjoint(qml.S(0))
        return qml.expval(together), qml.var(together)

    state = np.array([np.cos(0.2), -1j * np.sin(0.2)])
    mean, square = (np.vdot(state, m @ state).real for m in (matrix, matrix @ matrix))
    got = bellhop.qjit(qml.QNode(circuit, qml.device(device, wires=1)))(0.4)
    np.testing.assert_allclose(got, [mean, square - mean**2], atol=1e-12)


def test_computed_coefficients_beside_what_is_hermitian_together() -> None:
    def circuit(x: Any) -> Any:
        qml.RX(0.4, wires=0)
        return qml.expval(qml.S(0) + qml.adjoint(qml.S(0)) + x * qml.Z(0))

    compiled = bellhop.qjit(qml.QNode(circuit, qml.device("lightning.qubit", wires=1)))
    np.testing.assert_allclose(compiled(0.7), 1 + 1.7 * np.cos(0.4), atol=1e-12)


def test_the_imaginary_part_of_a_computed_coefficient_is_discarded_with_a_warning() -> None:
    qnode = qml.QNode(lambda c: qml.expval(c * qml.Z(0)), qml.device("lightning.qubit", wires=1))
    with pytest.warns(
        np.exceptions.ComplexWarning, match="so the imaginary part of the coefficient is discarded"
    ):
        assert bellhop.qjit(qnode)(2 + 1j) == 2


def test_a_complex_angle_is_refused() -> None:
    def circuit(x: Any) -> Any:
        qml.RX(x, wires=0)
        return qml.expval(qml.Z(0))

    qnode = qml.QNode(circuit, qml.device("lightning.qubit", wires=1))
    with pytest.raises(bellhop.CompileError, match="a parameter of RX is complex, expected a real"):
        bellhop.qjit(qnode)(2 + 1j)


def test_an_operator_is_no_result() -> None:
    qnode = qml.QNode(lambda: qml.Z(0), qml.device("lightning.qubit", wires=1))
    with pytest.raises(
        bellhop.CompileError,
        match=r"returned a PauliZ, expected .* Measure the operator: qml.expval",
    ):
        bellhop.qjit(qnode)()


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
def test_coefficients_with_an_axis_of_a_batch_are_refused(device: str) -> None:
    def circuit(x: Any) -> Any:
        return qml.expval(qml.dot(x, [qml.Z(0), qml.Y(0)]))

    qnode = qml.QNode(circuit, qml.device(device, wires=1))
    line = circuit.__code__.co_firstlineno
    with pytest.raises(bellhop.CompileError, match=r"with a coefficient of shape \(3,\)") as caught:
        bellhop.qjit(qnode)(np.ones((2, 3)))
    assert f"{__file__}:{line}" in str(caught.value)
    np.testing.assert_allclose(
        bellhop.qjit(bellhop.vmap(qnode, in_axes=1))(np.ones((2, 3))), np.ones(3)
    )
