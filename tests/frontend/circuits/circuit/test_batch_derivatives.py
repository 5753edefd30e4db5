"""Derivatives of batches of circuits, and batches of derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.frontend.circuits.circuit.batched_circuits import (
    X,
    Y,
    compiled,
    derived,
    looped,
    one_value,
    random,
    reference,
    rows_of,
    several,
    weighted,
)

import bellhop


def test_gradient_of_each_row(assert_close):
    mapped = bellhop.qjit(bellhop.vmap(bellhop.grad(compiled(one_value), argnums=(0, 1))))
    expected = looped(derived(jax.grad, one_value, argnums=(0, 1)), (0, 0), 0, (X, Y))
    assert_close(mapped(X, Y), expected)
    # Values and derivatives come of one run of each row.
    assert rows_of(mapped) == [5]
    assert mapped.mlir_opt.count('"quantum.measure"') == 1


@pytest.mark.large
def test_gradient_of_a_sum_over_rows(assert_close):
    def loss(function):
        return lambda x, y: jnp.sum(jax.vmap(function, in_axes=(0, None))(x, y) ** 2)

    f = bellhop.qjit(bellhop.grad(loss(compiled(one_value)), argnums=(0, 1)))

    def expected_loss(x, y):
        return sum(reference(one_value)(row, y) ** 2 for row in x)

    assert_close(f(X, Y[0]), jax.jit(jax.grad(expected_loss, argnums=(0, 1)))(X, Y[0]))
    assert rows_of(f) == [5]


@pytest.mark.large
def test_derivatives_of_all_kinds(assert_close):
    for derivative, function in ((jax.jacobian, several), (jax.hessian, one_value)):
        mapped = bellhop.qjit(jax.vmap(derivative(compiled(function)), in_axes=(0, None)))
        expected = looped(derived(derivative, function), (0, None), 0, (X[:2], Y[0]))
        assert_close(mapped(X[:2], Y[0]), expected)


@pytest.mark.parametrize("method", ["parameter-shift", "finite-diff", "adjoint"])
def test_gradients_of_each_method(method):
    mapped = bellhop.qjit(bellhop.vmap(bellhop.grad(compiled(one_value, diff_method=method))))
    expected = looped(derived(jax.grad, one_value), (0, 0), 0, (X, Y))
    tolerance = 1e-5 if method == "finite-diff" else 1e-9
    np.testing.assert_allclose(mapped(X, Y), expected, rtol=0, atol=tolerance)


def test_gradient_by_coefficients_and_matrices_of_rows(assert_close):
    def total(function):
        return jax.grad(lambda x, y: sum(function(x, y)), argnums=(0, 1))

    mapped = bellhop.qjit(jax.vmap(total(compiled(weighted))))
    expected = looped(derived(total, weighted), (0, 0), 0, (X, Y))
    assert_close(mapped(X, Y), expected)


@pytest.mark.large
def test_gradient_of_batches_of_batches(assert_close):
    x, y = random(2, 2), random(2)

    def loss(function):
        one_way = jax.vmap(function, in_axes=(None, 0))
        return lambda x, y: jnp.prod(jax.vmap(one_way, in_axes=(0, None), out_axes=1)(x, y))

    @jax.jit
    def expected(x, y):
        rows = [[reference(one_value)(x[i], y[j]) for i in range(2)] for j in range(2)]
        return jnp.prod(jnp.array(rows))

    f = bellhop.qjit(bellhop.grad(loss(compiled(one_value)), argnums=(0, 1)))
    assert_close(f(x, y), jax.grad(expected, argnums=(0, 1))(x, y))


def test_jacobian_of_a_batch_with_conditionals():
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        bellhop.cond(x > 0, lambda: qml.RX(x * x, 0), lambda: qml.RX(3 * x, 0))()
        return qml.expval(qml.Z(0)), qml.expval(qml.Y(0))

    points = jnp.array([0.4, -0.3, 0.7])
    cosines, sines = bellhop.qjit(jax.jacobian(jax.vmap(circuit)))(points)
    angles, slopes = np.array([0.16, -0.9, 0.49]), np.array([0.8, 3.0, 1.4])
    np.testing.assert_allclose(cosines, np.diag(-np.sin(angles) * slopes), atol=1e-12)
    np.testing.assert_allclose(sines, np.diag(-np.cos(angles) * slopes), atol=1e-12)
