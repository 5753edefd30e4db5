"""Functions of JAX that are primitives of a high level (from jax 0.12 on) in circuits."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

GRID = np.array([1.0, 2.0, 3.0])


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
def test_angles_and_loops(device):
    @qml.qnode(qml.device(device, wires=1))
    def circuit(x, n):
        @bellhop.for_loop(0, n, 1)
        def turn(i, y):
            qml.RX(y * jnp.searchsorted(GRID, y), wires=0)
            return y

        turn(x)
        return qml.expval(qml.Z(0))

    x = np.array([0.3, 1.5, 2.5])
    angle = 2 * np.searchsorted(GRID, x)
    of_rows = jax.vmap(circuit, in_axes=(0, None))
    np.testing.assert_allclose(bellhop.qjit(of_rows)(x, 2), np.cos(angle * x), atol=1e-12)
    gradient = bellhop.qjit(bellhop.grad(circuit))
    np.testing.assert_allclose(gradient(1.5, 2), -2 * np.sin(2 * 1.5), atol=1e-12)
