"""Derivatives of variances by the coefficients and the matrices of their observables."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

X, Y, Z = (np.array(m) for m in ([[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]]))


def rotation(pauli, angle):
    return jnp.cos(angle / 2) * jnp.eye(2) - 1j * jnp.sin(angle / 2) * pauli


def variance(matrix, x, y, n):
    """The variance of a matrix after ``n`` rotations of each of two qubits."""
    one, other = rotation(X, y) @ jnp.eye(2)[0], rotation(Y, n * x) @ jnp.eye(2)[0]
    state = jnp.kron(one, other)
    mean, square = (jnp.real(state.conj() @ m @ state) for m in (matrix, matrix @ matrix))
    return square - mean**2


def hermitian(x, y):
    return jnp.array([[x, 1j * y], [-1j * y, x * y]])


def observable(x, y):
    return y * qml.Hermitian(hermitian(x, y), 1) + x * qml.X(0) @ qml.Z(1)


def matrix(x, y):
    return y * jnp.kron(np.eye(2), hermitian(x, y)) + x * np.kron(X, Z)


def with_slopes(f):
    """The gradient, and the gradient of its sum."""
    gradient = jax.grad(f)
    return lambda p: (gradient(p), jax.grad(lambda p: jnp.sum(gradient(p)))(p))


@pytest.mark.parametrize(
    ("options", "is_computed"), [({}, False), ({"engine": "plugin"}, False), ({}, True)]
)
def test_gradients(options, is_computed):
    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def circuit(point, n):
        x, y = point
        qml.RX(y, 0)

        @bellhop.for_loop(0, n if is_computed else 2, 1)
        def loop(_):
            qml.RY(x, 1)

        loop()
        return qml.var(observable(x, y))

    point = jnp.array([0.3, 0.7])
    expected = jax.jit(with_slopes(lambda p: variance(matrix(*p), *p, 2)))(point)
    take = jax.grad if is_computed or options else with_slopes
    found = bellhop.qjit(lambda p, n: take(lambda p: circuit(p, n))(p), **options)(point, 2)
    for one, other in zip(found if take is with_slopes else [found], expected, strict=False):
        np.testing.assert_allclose(one, other, atol=1e-10)


def test_a_computed_wire_beside_coefficients():
    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def circuit(x, wire):
        qml.RX(x, wires=0)
        return qml.expval(qml.Hamiltonian([x], [qml.Z(0)])), qml.var(qml.Z(wire))

    slopes = bellhop.qjit(bellhop.jacobian(circuit))(0.4, 0)
    expected = [np.cos(0.4) - 0.4 * np.sin(0.4), 2 * np.sin(0.4) * np.cos(0.4)]
    np.testing.assert_allclose(slopes, expected, atol=1e-12)
