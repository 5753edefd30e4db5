"""States in single precision: by the device or by the program, in the engine or not."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from bellhop_runtime._runtime import rows_in_engine

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
    with pytest.raises(bellhop.CircuitError, match=r"40 qubits take 8.19e\+03 GiB of memory"):
        bellhop.qjit(node(lambda: qml.expval(qml.Z(0)), wires=40))(0.4)


def layered(wires, device="lightning.qubit", **options):
    """RX, RY, CRZ and an IsingXX on each wire, then values of each kind."""

    @qml.qnode(qml.device(device, wires=wires), **options)
    def circuit(x):
        for wire in range(wires):
            qml.RX(x[wire], wire)
            qml.RY(0.3 * wire + x[0], wire)
        for wire in range(wires - 1):
            qml.CRZ(x[wire], [wire, wire + 1])
            qml.CNOT([wire, wire + 1])
        qml.IsingXX(x[1], [0, wires - 1])
        word = qml.X(0) @ qml.Y(1) @ qml.Z(2)
        return qml.expval(word + 0.5 * qml.Z(0)), qml.var(qml.Z(1)), qml.probs(wires=[wires - 1, 0])

    return circuit


# A state smaller than a register, one, and one that is gone through by tiles.
@pytest.mark.parametrize("wires", [3, 6, 13])
def test_a_program_in_single_precision(wires):
    x = jnp.array(np.random.default_rng(wires).uniform(0, 2, wires))
    single = bellhop.qjit(layered(wires), precision="single")
    before = rows_in_engine()
    values = single(x)
    assert rows_in_engine() == before + 1
    assert [value.dtype for value in values] == [np.float64, np.float64, np.float32]
    expected = layered(wires, "default.qubit")(np.asarray(x))
    assert not all(np.array_equal(a, b) for a, b in zip(values, expected, strict=True))
    for value, exact in zip(values, expected, strict=True):
        np.testing.assert_allclose(value, exact, atol=1e-6)


@pytest.mark.parametrize("rows", [None, 5])
def test_derivatives_in_single_precision(rows):
    x = jnp.array(np.random.default_rng(3).uniform(0, 2, 4 if rows is None else (rows, 4)))

    def loss(circuit):
        def of_row(x):
            mean, variance, probabilities = circuit(x)
            return mean + variance + probabilities @ jnp.arange(4.0)

        return of_row

    def slope(circuit):
        return jax.grad(loss(circuit)) if rows is None else jax.vmap(jax.grad(loss(circuit)))

    found = bellhop.qjit(slope(layered(4)), precision="single")(x)
    expected = jax.jit(slope(layered(4, "default.qubit")))(x)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert not np.array_equal(found, expected)


def test_measurements_in_the_middle_in_single_precision():
    def make(device):
        @qml.qnode(qml.device(device, wires=4))
        def circuit(x):
            qml.RX(x, 0)
            outcome = qml.measure(0, reset=True)
            qml.cond(outcome, qml.RY)(x, 1)
            qml.RX(x, 0)
            return qml.expval(qml.Z(0) @ qml.Z(1)), qml.expval(outcome)

        return circuit

    single = bellhop.qjit(jax.jacobian(make("lightning.qubit")), precision="single")
    expected = jax.jit(jax.jacobian(make("default.qubit")))(0.7)
    np.testing.assert_allclose(single(0.7), expected, atol=1e-5)


def test_the_program_says_more_than_the_device():
    measured = node(lambda: qml.state())
    assert bellhop.qjit(measured)(0.4).dtype == np.complex64
    double = bellhop.qjit(measured, precision="double")(0.4)
    assert double.dtype == np.complex128
    np.testing.assert_allclose(double[0], np.cos(0.2), atol=1e-15)


def test_devices_without_the_engine_are_called():
    single = bellhop.qjit(node(lambda: qml.state()), engine="plugin")(0.4)
    assert single.dtype == np.complex64
    np.testing.assert_allclose(single[0], np.cos(0.2), atol=1e-7)


def test_wrong_precision():
    with pytest.raises(ValueError, match="precision must be one of double, single, got 'half'"):
        bellhop.qjit(lambda x: x, precision="half")
