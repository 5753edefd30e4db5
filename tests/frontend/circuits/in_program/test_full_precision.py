"""Products ask for full precision: TPUs and some GPUs have faster ones of fewer bits."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop
from bellhop.tracing.state import override_trace_state

HERMITIAN = np.array([[1, 0.5j], [-0.5j, 2]])


def layers(x):
    for qubit in range(4):
        qml.RX(x[qubit], qubit)
        qml.CNOT([qubit, (qubit + 1) % 4])
    return qml.expval(qml.Z(0) @ qml.X(1))


def large_matrix(x):
    qml.RX(x[0], 0)
    qml.QubitUnitary(np.eye(16)[::-1], range(4))
    return qml.expval(qml.Z(0))


def dense_observable(x):
    qml.RX(x[0], 0)
    return qml.expval(qml.Z(1) @ qml.Hermitian(HERMITIAN, 0)), qml.density_matrix([0])


def computed_unitary(x):
    rotation = jnp.array([[jnp.cos(x[0]), jnp.sin(x[0])], [-jnp.sin(x[0]), jnp.cos(x[0])]])
    qml.QubitUnitary(rotation @ rotation, 0)
    return qml.expval(qml.Z(0))


CIRCUITS = [layers, large_matrix, dense_observable, computed_unitary]


@pytest.mark.parametrize("is_gradient", [False, True], ids=["value", "gradient"])
@pytest.mark.parametrize("name", ["default.qubit", "default.mixed"])
@pytest.mark.parametrize("circuit", CIRCUITS)
def test_of_circuits_on_an_accelerator(circuit, name, is_gradient):
    def summed(x):
        node = qml.qnode(qml.device(name, wires=4))(circuit)
        return sum(jnp.sum(jnp.real(leaf)) for leaf in jax.tree.leaves(node(x)))

    program = bellhop.qjit(jax.grad(summed) if is_gradient else summed)
    # Circuits are parts of the program, as in a region on another device.
    with override_trace_state(in_region=True):
        traced = jax.jit(lambda x: program(x)).trace(np.ones(4, np.float32))
    text = traced.lower(lowering_platforms=("tpu",)).as_text()
    products = [line for line in text.splitlines() if "dot_general" in line]
    assert products
    assert [line for line in products if "precision = [HIGHEST, HIGHEST]" not in line] == []
