"""Circuits and their derivatives in ``jax.shard_map``, which keeps track of what differs between
devices: held against the same program on one device.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from jax.sharding import Mesh, PartitionSpec

import bellhop

X = np.linspace(0.1, 1.0, 16).reshape(8, 2)
BATCH = PartitionSpec("batch")
SCALE = 0.9


@pytest.fixture(scope="module")
def mesh():
    return Mesh(np.array(jax.devices("cpu")[:2]), ("batch",))


def straight(x):
    qml.RX(SCALE * x[0], wires=0)
    qml.RY(x[1], wires=1)
    qml.CNOT([0, 1])


def looped(x):
    straight(x)

    @qml.for_loop(0, 3, 1)
    def repeat(i, angle):
        qml.RX(angle * i, wires=0)
        return angle + x[1]

    repeat(x[0])


def measured(x):
    straight(x)
    outcome = qml.measure(0)
    qml.cond(outcome, qml.RX)(x[1], 1)


def noisy(x):
    straight(x)
    qml.DepolarizingChannel(0.1 * x[0] ** 2, 0)


def noisy_measured(x):
    measured(x)
    qml.DepolarizingChannel(0.1 * x[0] ** 2, 1)


def mean():
    return qml.expval(qml.Z(1) @ qml.X(0))


def frequencies():
    return qml.probs(wires=[0, 1])


CIRCUITS = {
    "engine": ("lightning.qubit", straight, mean, {}),
    "vjp of the engine": ("lightning.qubit", straight, frequencies, {}),
    "loop of gates": ("lightning.qubit", looped, mean, {}),
    "measurements": ("lightning.qubit", measured, mean, {}),
    "shifts": ("lightning.qubit", straight, mean, {"diff_method": "parameter-shift"}),
    "in the program": ("default.qubit", looped, mean, {"diff_method": "backprop"}),
    "noise": ("default.mixed", noisy, mean, {}),
    "noise and measurements": ("default.mixed", noisy_measured, mean, {}),
}


def scalar(device, gates, measure, options):
    @qml.qnode(qml.device(device, wires=2), **options)
    def circuit(x):
        gates(x)
        return measure()

    return lambda x: jnp.sum(circuit(x) ** 2)


def of_batch(f, x):
    return bellhop.vmap(f)(x).sum()


PROGRAMS = {
    "value": lambda f: bellhop.vmap(f),
    "gradients": lambda f: bellhop.vmap(jax.grad(f)),
    "gradient of a batch": lambda f: jax.grad(lambda x: of_batch(f, x)),
    "forward mode": lambda f: bellhop.vmap(jax.jacfwd(f)),
    "hessians": lambda f: bellhop.vmap(jax.hessian(f)),
    "a loop of gradients": lambda f: (
        lambda x: jax.lax.fori_loop(0, 2, lambda _, y: y - bellhop.vmap(jax.grad(f))(y), x)
    ),
}


@pytest.mark.matrix
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("circuit", CIRCUITS.values(), ids=CIRCUITS)
def test_what_devices_do_with_their_parts(mesh, circuit, program):
    run = program(scalar(*circuit))
    result = jax.jit(jax.shard_map(run, mesh=mesh, in_specs=BATCH, out_specs=BATCH))(X)
    assert len(result.sharding.device_set) == 2
    np.testing.assert_allclose(result, jax.jit(run)(X), atol=1e-9)


# Each of the last one's two is there.
@pytest.mark.parametrize("name", list(CIRCUITS)[:-1])
def test_parameters_that_all_devices_share(mesh, name):
    """Their gradient is the sum over the devices, which JAX takes by what it knows of the axes."""
    f = scalar(*CIRCUITS[name])

    def gradient(x, weights, total=lambda value: value):
        return jax.grad(lambda weights: total(of_batch(lambda y: f(weights * y), x)))(weights)

    def part(x, weights):
        return gradient(x, weights, lambda value: jax.lax.psum(value, "batch"))

    both = BATCH, PartitionSpec()
    weights = np.array([0.7, 1.3])
    result = jax.jit(jax.shard_map(part, mesh=mesh, in_specs=both, out_specs=PartitionSpec()))(
        X, weights
    )
    np.testing.assert_allclose(result, jax.jit(gradient)(X, weights), atol=1e-9)


def test_values_that_a_circuit_closes_over(mesh):
    def part(x):
        @qml.qnode(qml.device("lightning.qubit", wires=2))
        def circuit(angle):
            qml.for_loop(0, 2, 1)(lambda i, a: (qml.RX(a * x[0, 0], 0), a + angle)[1])(angle)
            return qml.expval(qml.Z(0))

        return jax.grad(lambda angle: bellhop.qjit(circuit)(angle))(x[0, 1])[None]

    alone = [float(jax.jit(part)(half)[0]) for half in (X[:4], X[4:])]
    result = jax.jit(jax.shard_map(part, mesh=mesh, in_specs=BATCH, out_specs=BATCH))(X)
    np.testing.assert_allclose(result, alone, atol=1e-9)


def test_without_jit(mesh):
    run = bellhop.vmap(jax.grad(scalar(*CIRCUITS["engine"])))
    result = jax.shard_map(run, mesh=mesh, in_specs=BATCH, out_specs=BATCH)(X)
    np.testing.assert_allclose(result, jax.jit(run)(X), atol=1e-9)
