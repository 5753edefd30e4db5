"""QNodes inside regions: default.qubit is simulated on the region's device."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.standin.fixtures import Counts

import bellhop


def node_on(name):
    @qml.qnode(qml.device(name, wires=2))
    def node(x):
        qml.RX(x, 0)
        qml.RY(x**2, 1)
        qml.CNOT([0, 1])
        return qml.expval(qml.Z(1)), qml.probs(wires=0)

    return node


node = node_on("default.qubit")


def hybrid(x):
    expval, probs = node(jnp.sin(x))
    return 2 * expval + jnp.sum(probs**2)


TRANSFORMATIONS = {
    "value": lambda f: f,
    "grad": jax.grad,
    "hessian": jax.hessian,
    "vmap of grad": lambda f: lambda x: jax.vmap(jax.grad(f))(x * jnp.arange(1.0, 3.0)),
    "loop": lambda f: lambda x: jax.lax.fori_loop(0, 3, lambda i, v: f(v), x),
}


@functools.cache
def plain(transform):
    return jax.jit(transform(hybrid))(0.4)


@pytest.mark.parametrize("transform", TRANSFORMATIONS.values(), ids=TRANSFORMATIONS)
def test_default_qubit_in_a_region(on, transform):
    accelerated = bellhop.qjit(transform(on(hybrid)))
    np.testing.assert_allclose(accelerated(0.4), plain(transform), rtol=1e-9)


def test_it_is_simulated_on_the_device(other):
    program = bellhop.qjit(lambda x: bellhop.accelerate(node, dev=other)(x))
    expval, probs = program(0.4)
    np.testing.assert_allclose(expval, node(0.4)[0], rtol=1e-9)
    np.testing.assert_allclose(probs, node(0.4)[1], rtol=1e-9)
    # One region, and nothing of the circuit in the program itself.
    main = program.mlir_opt.split("func.func private")[0]
    assert main.count("callback.accelerate") == 1
    assert "stablehlo" not in main


@pytest.mark.parametrize("transform", TRANSFORMATIONS.values(), ids=TRANSFORMATIONS)
def test_circuit_on_a_quantum_device_runs_beside_its_region(on, transform):
    lightning = node_on("lightning.qubit")

    def hybrid_of_lightning(x):
        expval, probs = lightning(jnp.sin(x))
        return 2 * expval + jnp.sum(probs**2)

    accelerated = bellhop.qjit(transform(on(hybrid_of_lightning)))
    np.testing.assert_allclose(accelerated(0.4), plain(transform), rtol=1e-9)


@pytest.mark.gpu
def test_circuit_crosses_by_its_parameters_and_its_result(counts):
    lightning = node_on("lightning.qubit")
    program = bellhop.qjit(
        bellhop.accelerate(lambda x: jnp.exp(lightning(jnp.sin(x))[0]), dev="gpu")
    )
    value = program(0.4)
    with jax.default_device(jax.devices("cpu")[0]):
        np.testing.assert_allclose(value, np.exp(node(np.sin(0.4))[0]), rtol=1e-9)
    with counts() as counted:
        jax.block_until_ready(program(0.4))
    assert counted == Counts(executions=2, to_device=2, to_host=2)
