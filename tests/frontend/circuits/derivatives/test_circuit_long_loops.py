"""Derivatives of circuits with thousands of gates in loops, which stay loops when compiled."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

pytestmark = pytest.mark.usefixtures("loops_stay")

POINT = 0.3, 0.7
SHORT, LONG = 100, 1500


def looped(n_iterations: int, **options: Any) -> qml.QNode:
    @qml.qnode(qml.device("lightning.qubit", wires=1), **options)
    def circuit(x: Any, y: Any) -> Any:
        @bellhop.for_loop(0, n_iterations)
        def loop(i: Any, angle: Any) -> Any:
            qml.RX(angle, 0)
            qml.RZ(y * jnp.sin(i), 0)
            return angle * 0.999

        loop(x)
        return qml.expval(qml.Y(0))

    return circuit


def by_matrices(n_iterations: int) -> Any:
    def step(carried: Any, i: Any) -> Any:
        (zero, one), angle, y = carried
        c, s = jnp.cos(angle / 2), -1j * jnp.sin(angle / 2)
        turned = c * zero + s * one, s * zero + c * one
        phase = jnp.exp(-0.5j * y * jnp.sin(i))
        return ((turned[0] * phase, turned[1] / phase), angle * 0.999, y), None

    def energy(x: Any, y: Any) -> Any:
        start = (jnp.complex128(1), jnp.complex128(0)), x, y
        ((zero, one), *_), _ = jax.lax.scan(step, start, jnp.arange(n_iterations))
        return 2 * jnp.imag(jnp.conj(zero) * one)

    return energy


@pytest.mark.parametrize(
    "method", ["adjoint", pytest.param("parameter-shift", marks=pytest.mark.large)]
)
def test_gradient_is_right_and_its_program_small(method: str) -> None:
    sizes = []
    for n_iterations in (SHORT, LONG if method == "adjoint" else 2 * SHORT):
        node = looped(n_iterations, diff_method=method)
        compiled = bellhop.qjit(bellhop.value_and_grad(node, argnums=(0, 1)))
        actual = compiled(*POINT)
        expected = jax.jit(jax.value_and_grad(by_matrices(n_iterations), argnums=(0, 1)))(*POINT)
        np.testing.assert_allclose(actual[0], expected[0], rtol=0, atol=1e-9)
        np.testing.assert_allclose(actual[1], expected[1], rtol=1e-9, atol=1e-8)
        sizes.append(len(compiled.mlir_opt))
    # The numbers in it grow by a digit.
    assert sizes[1] < 1.01 * sizes[0]


@pytest.mark.hessian
def test_second_derivative() -> None:
    compiled = bellhop.qjit(jax.hessian(looped(20), argnums=(0, 1)))(*POINT)
    expected = jax.jit(jax.hessian(by_matrices(20), argnums=(0, 1)))(*POINT)
    np.testing.assert_allclose(compiled, expected, rtol=1e-9, atol=1e-8)


def test_loop_of_dynamic_length_by_finite_differences_of_the_program() -> None:
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x: Any, n: Any) -> Any:
        bellhop.for_loop(0, n)(lambda i: qml.RX(x, 0) and None)()
        return qml.expval(qml.Z(0))

    compiled = bellhop.qjit(bellhop.grad(circuit, method="fd"))
    for n in (0, 5):
        assert compiled(0.3, n) == pytest.approx(-n * np.sin(0.3 * n), abs=1e-5)
