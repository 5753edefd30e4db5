"""Numbers of 16 bits in circuits, in which nothing is computed: results are those of 32 bits."""

import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

DEVICES = {
    "engine": ("lightning.qubit", "auto"),
    "plugin": ("lightning.qubit", "plugin"),
    "program": ("default.qubit", "plugin"),
    "mixed": ("default.mixed", "auto"),
    "Python": ("reference.qubit", "auto"),
}
TYPES = [jnp.float16, jnp.bfloat16]


def moments(device, rotated):
    """A circuit in which a number is every kind of number there is."""

    @qml.qnode(qml.device(device, wires=2))
    def circuit(x):
        qml.RX(x, wires=0)
        if rotated:
            qml.ctrl(qml.RY, control=0)(x, wires=1)
            qml.Rot(x, x, x, wires=0)
            qml.pow(qml.RX(x, wires=1), 0.5)
        if device == "default.mixed":
            qml.AmplitudeDamping(x, wires=0)
        words = [qml.Z(0), qml.X(0) @ qml.Z(1)]
        return qml.expval(qml.Hamiltonian([x, x], words)), qml.var(qml.X(1))

    return circuit


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("device", "engine"), DEVICES.values(), ids=DEVICES)
def test_computed_numbers(device, engine, dtype):
    circuit = moments(device, rotated=True)
    x = jnp.asarray(0.7, dtype)
    for value, expected in zip(
        bellhop.qjit(circuit, engine=engine)(x), circuit(float(x)), strict=True
    ):
        assert value.dtype == np.float32
        np.testing.assert_allclose(value, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("given", [np.float16, lambda x: jnp.asarray(x, jnp.float16)])
@pytest.mark.parametrize("device", ["default.mixed", "reference.qubit"])
def test_constants(device, given):
    circuit = moments(device, rotated=False)
    found = bellhop.qjit(lambda: circuit(given(0.7)))()
    np.testing.assert_allclose(found, circuit(float(np.float16(0.7))), rtol=0, atol=1e-6)


def test_noise_models_and_matrices():
    model = qml.NoiseModel({qml.noise.op_eq("RX"): qml.noise.partial_wires(qml.PhaseDamping, 0.2)})

    @qml.qnode(qml.device("default.mixed", wires=1))
    def circuit(x, matrix):
        qml.RX(x, wires=0)
        qml.RX(x, wires=0)
        return qml.expval(qml.Hermitian(matrix, wires=0))

    noisy = qml.add_noise(circuit, model)
    x, matrix = jnp.float16(0.7), jnp.asarray([[0.3, 0.1], [0.1, 0.7]], jnp.float16)
    found = bellhop.qjit(noisy)(x, matrix)
    expected = noisy(float(x), np.asarray(matrix, float))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
