"""Derivatives of observables of many terms, by coefficients that the program computes."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

import bellhop

WORDS = [
    qml.prod(*(getattr(qml, letter)(wire) for wire, letter in enumerate(word)))
    for word in itertools.product("XYZ", repeat=3)
]


def _measured(x: Any, coefficients: Any) -> Any:
    for wire in range(3):
        qml.RY(x * (wire + 1), wires=wire)
        qml.RZ(0.3, wires=wire)
    qml.CNOT([0, 1])
    return qml.expval(qml.Hamiltonian(coefficients, WORDS[: len(coefficients)]))


def test_derivative_by_many_coefficients(compare_derivative: Any) -> None:
    coefficients = np.linspace(-1, 1, len(WORDS))
    compare_derivative(_measured, 0.4, coefficients, wires=3)


def test_terms_are_not_equations_of_their_own(lightning: Any) -> None:
    def equations(n: int) -> int:
        gradient = bellhop.grad(lightning(_measured, 3), argnums=(0, 1))
        f = bellhop.qjit(lambda x, c: gradient(x, c))
        f(0.4, jnp.linspace(-1, 1, n))
        return sum(" = " in line for line in f.jaxpr.pretty_print().splitlines())

    assert equations(27) == equations(9)


def test_derivative_by_the_coefficients_of_several_observables(compare_derivative: Any) -> None:
    def circuit(x: Any, c: Any) -> Any:
        qml.RY(x, 0)
        qml.CNOT([0, 1])
        return (
            qml.expval(qml.dot(c, [qml.X(0) @ qml.X(1), qml.Hadamard(1)])),
            qml.expval(qml.Z(1)),
            qml.expval(qml.dot([x, 2.0 * c[1]], [qml.Z(0), qml.Y(1) @ qml.Y(0)])),
        )

    compare_derivative(circuit, 0.7, np.array([0.3, -0.8]), wires=2)


def test_hessian_by_coefficients(lightning: Any) -> None:
    qnode = lightning(_measured, 3)
    c = jnp.linspace(-1, 1, 9)
    mixed = bellhop.qjit(lambda x, c: jax.jacobian(jax.grad(qnode, argnums=1))(x, c))(0.4, c)
    step = 1e-5
    gradient = bellhop.qjit(lambda x, c: jax.grad(qnode, argnums=1)(x, c))
    expected = (gradient(0.4 + step, c) - gradient(0.4 - step, c)) / (2 * step)
    np.testing.assert_allclose(mixed, expected, atol=1e-7)
