"""A batch of circuits over several devices, and over several processes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from jax.sharding import Mesh, PartitionSpec
from tests.processes import run_in_processes

import bellhop

X = np.linspace(0.1, 1.0, 16).reshape(8, 2)
BATCH = PartitionSpec("batch")


def body(x):
    qml.RX(x[0], wires=0)
    qml.RY(x[1], wires=1)
    qml.CNOT([0, 1])
    return qml.expval(qml.Z(1))


circuit = qml.QNode(body, qml.device("lightning.qubit", wires=2))
reference = qml.QNode(body, qml.device("default.qubit", wires=2))


@pytest.fixture(scope="module")
def mesh():
    devices = jax.devices("cpu")
    assert len(devices) == 2, "the suite runs with two host devices"
    return Mesh(np.array(devices), ("batch",))


def sharded(function, mesh, out_specs=BATCH):
    return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=BATCH, out_specs=out_specs))


def test_values_over_two_devices(mesh):
    result = sharded(bellhop.vmap(circuit), mesh)(X)
    assert len(result.sharding.device_set) == 2
    np.testing.assert_array_equal(result, bellhop.qjit(bellhop.vmap(circuit))(X))
    np.testing.assert_allclose(result, [reference(x) for x in X], atol=1e-9)


def test_derivatives_over_two_devices(mesh):
    gradient = bellhop.vmap(bellhop.grad(circuit))
    result = sharded(gradient, mesh)(X)
    np.testing.assert_allclose(result, bellhop.qjit(gradient)(X), rtol=0, atol=1e-12)
    expected = [qml.grad(reference)(qml.numpy.array(x, requires_grad=True)) for x in X]
    np.testing.assert_allclose(result, expected, atol=1e-9)


def test_a_loop_of_circuits_over_two_devices(mesh):
    @jax.jit
    @functools.partial(jax.shard_map, mesh=mesh, in_specs=BATCH, out_specs=BATCH)
    def twice(x):
        run = bellhop.vmap(circuit)
        return jax.lax.fori_loop(0, 2, lambda _, y: x * run(y)[:, None], x)

    expected = [reference(x * reference(x)) * x for x in X]
    np.testing.assert_allclose(twice(X), expected, atol=1e-9)


def test_a_sum_over_two_devices(mesh):
    def total(x):
        return jax.lax.psum(jnp.sum(bellhop.vmap(circuit)(x)), "batch")

    result = sharded(total, mesh, PartitionSpec())(X)
    np.testing.assert_allclose(result, sum(reference(x) for x in X), atol=1e-9)


def test_a_qjit_program_says_that_it_runs_on_one_device(mesh):
    f = bellhop.qjit(
        lambda x: jax.shard_map(bellhop.vmap(circuit), mesh=mesh, in_specs=BATCH, out_specs=BATCH)(
            x
        )
    )
    with pytest.raises(bellhop.CompileError, match="runs on one host device.*jax.jit instead of"):
        f(X)
    one = Mesh(np.array(jax.devices("cpu")[:1]), ("batch",))
    alone = jax.shard_map(bellhop.vmap(circuit), mesh=one, in_specs=BATCH, out_specs=BATCH)
    np.testing.assert_allclose(bellhop.qjit(alone)(X), [reference(x) for x in X], atol=1e-9)


PROGRAM = """
import pennylane as qml
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jax.experimental.multihost_utils import process_allgather

@qml.qnode(qml.device("lightning.qubit", wires=2))
def circuit(x):
    qml.RX(x[0], wires=0)
    qml.RY(x[1], wires=1)
    qml.CNOT([0, 1])
    return qml.expval(qml.Z(1))

X = np.linspace(0.1, 1.0, 16).reshape(8, 2)
mesh = Mesh(np.array(devices), ("batch",))
x = jax.make_array_from_callback(X.shape, NamedSharding(mesh, P("batch")), lambda i: X[i])

def part(x):
    values = bellhop.vmap(circuit)(x)
    return values, bellhop.vmap(bellhop.grad(circuit))(x), jax.lax.psum(jnp.sum(values), "batch")

run = jax.jit(jax.shard_map(
    part, mesh=mesh, in_specs=P("batch"), out_specs=(P("batch"), P("batch"), P())))
values, gradients, total = run(x)
values, gradients = (process_allgather(each, tiled=True) for each in (values, gradients))
print("RESULT", len(devices), [float(v) for v in (*values, *gradients.ravel(), total)])
"""


@pytest.mark.subprocess
def test_values_over_two_processes():
    results = run_in_processes(PROGRAM)
    assert results[0] == results[1]
    assert results[0].startswith("RESULT 2 ")
    numbers = np.array(
        [float(n) for n in results[0].split("[")[1].replace("'", "").rstrip("]").split(",")]
    )
    alone = bellhop.qjit(bellhop.vmap(circuit))(X)
    np.testing.assert_array_equal(numbers[:8], alone)
    gradient = bellhop.qjit(bellhop.vmap(bellhop.grad(circuit)))(X)
    np.testing.assert_allclose(numbers[8:24], np.ravel(gradient), rtol=0, atol=1e-12)
    np.testing.assert_allclose(numbers[24], np.sum(alone), rtol=1e-12)
