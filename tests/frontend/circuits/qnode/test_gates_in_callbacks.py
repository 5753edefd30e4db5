"""Gates that callbacks make, ours and JAX's own, while the circuit that calls them runs."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from jax.experimental import io_callback
from jax.experimental.buffer_callback import buffer_callback

import bellhop

SCALAR = jax.ShapeDtypeStruct((), jnp.float64)


def rotation(y):
    """Make a gate; return a number."""
    return np.asarray(qml.RX(float(y), wires=0).data[0])


def written(context, out, y):
    """Make a gate; write a number."""
    np.asarray(out)[...] = rotation(np.asarray(y))


CALLS = {
    "bellhop.pure_callback": lambda x: bellhop.pure_callback(rotation, float)(x),
    "jax.pure_callback": lambda x: jax.pure_callback(rotation, SCALAR, x),
    "jax.io_callback": lambda x: io_callback(rotation, SCALAR, x, ordered=True),
    "jax.debug.callback": lambda x: jax.debug.callback(lambda y: rotation(y) and None, x) or x,
    "jax.buffer_callback": lambda x: buffer_callback(written, SCALAR)(x),
}


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_gates_in_callbacks_are_refused(call, device):
    @qml.qnode(qml.device(device, wires=1))
    def circuit(x):
        qml.RY(call(x), wires=0)
        return qml.expval(qml.Z(0))

    with pytest.raises(bellhop.CircuitError, match="RX is created in a callback, which runs after"):
        jax.block_until_ready(bellhop.qjit(circuit)(0.4))


def test_what_is_computed_from_operators_is_no_gate():
    @qml.qnode(qml.device("default.qubit", wires=1))
    def inner(y):
        qml.StronglyEntanglingLayers(np.full((1, 1, 3), y), wires=[0])
        return qml.expval(qml.Z(0))

    def matrix_element(y):
        with qml.QueuingManager.stop_recording():
            return np.asarray(qml.matrix(qml.RX(float(y), wires=0))[0, 0].real)

    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        qml.RX(jax.pure_callback(matrix_element, SCALAR, x), wires=0)
        qml.RX(jax.pure_callback(lambda y: np.asarray(inner(float(y))), SCALAR, x), wires=0)
        return qml.expval(qml.Z(0))

    expected = np.cos(np.cos(0.2) + np.cos(0.4))
    np.testing.assert_allclose(bellhop.qjit(circuit)(0.4), expected)


def test_callbacks_outside_of_circuits_may_make_operators():
    @bellhop.qjit
    def program(x):
        circuit = qml.QNode(lambda y: qml.expval(qml.Z(0)), qml.device("lightning.qubit", wires=1))
        return circuit(x) + jax.pure_callback(rotation, SCALAR, x)

    np.testing.assert_allclose(program(0.4), 1.4)


def test_circuits_in_callbacks_are_pennylane_s_without_compiling_too():
    kinds = []

    @qml.qnode(qml.device("default.qubit", wires=1))
    def circuit(x):
        qml.RX(x, wires=0)
        return qml.expval(qml.Z(0))

    @bellhop.pure_callback
    def run(x) -> float:
        value = circuit(x)
        kinds.append(isinstance(value, jax.Array))
        return value

    with jax.disable_jit():
        np.testing.assert_allclose(bellhop.qjit(lambda x: 2 * run(x))(0.3), 2 * np.cos(0.3))
    assert kinds == [False]
