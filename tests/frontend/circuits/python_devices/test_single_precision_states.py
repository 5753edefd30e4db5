"""Lightning with states in single precision, which its compiled interface has not."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop


def node(measure, wires=2, **options):
    def circuit(x):
        qml.RX(x, 0)
        qml.CNOT([0, 1])
        return measure()

    return qml.QNode(
        circuit, qml.device("lightning.qubit", wires=wires, c_dtype=np.complex64), **options
    )


def test_values_are_as_precise_as_the_state():
    measured = node(lambda: (qml.expval(qml.Z(1)), qml.state(), qml.probs()))
    mean, state, probabilities = bellhop.qjit(measured)(0.4)
    assert (mean.dtype, state.dtype, probabilities.dtype) == (np.float64, np.complex64, np.float32)
    amplitudes = np.array([np.cos(0.2), 0, 0, -1j * np.sin(0.2)])
    np.testing.assert_allclose(mean, np.cos(0.4), atol=1e-6)
    np.testing.assert_allclose(state, amplitudes, atol=1e-6)
    np.testing.assert_allclose(probabilities, abs(amplitudes) ** 2, atol=1e-6)


@pytest.mark.parametrize("method", ["adjoint", "parameter-shift"])
def test_derivatives_of_batches(method):
    slope = jax.grad(node(lambda: qml.expval(qml.Z(1)), diff_method=method))
    points = jnp.linspace(0, 1, 3)
    np.testing.assert_allclose(bellhop.qjit(jax.vmap(slope))(points), -np.sin(points), atol=1e-6)


@pytest.mark.parametrize("method", ["finite-diff", "spsa"])
def test_differences_go_as_far_as_rounding_asks(method):
    slope = jax.grad(node(lambda: qml.expval(qml.Z(1)), diff_method=method))
    np.testing.assert_allclose(bellhop.qjit(slope)(0.4), -np.sin(0.4), atol=2e-3)


def test_shots():
    sampled = qml.set_shots(node(lambda: qml.sample()), 7)
    samples = bellhop.qjit(sampled)(np.pi)
    np.testing.assert_array_equal(samples, np.ones((7, 2), int))


def test_state_that_fits_nowhere():
    with pytest.raises(bellhop.CompileError, match="the state of 40 qubits would take 8192 GiB"):
        bellhop.qjit(node(lambda: qml.expval(qml.Z(0)), wires=40))(0.4)
