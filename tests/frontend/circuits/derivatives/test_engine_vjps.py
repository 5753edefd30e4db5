"""Circuits with many values go back with their cotangents, in one sweep of the engine."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

RANDOM = np.random.default_rng(14)
X = RANDOM.normal(size=5)
TARGET = RANDOM.dirichlet(np.ones(8))
WEIGHTS = RANDOM.normal(size=8) + 1j * RANDOM.normal(size=8)


def circuit_on(device, measured, **options):
    @qml.qnode(qml.device(device, wires=3), **options)
    def circuit(x):
        qml.RX(x[0], 0)
        qml.RY(x[1] * x[2], 1)
        qml.CNOT([0, 1])
        qml.CRY(x[2], [1, 2])
        qml.GlobalPhase(x[4])
        qml.IsingXX(x[3], [0, 2])
        qml.RZ(x[4], 1)
        qml.RX(x[0], 1)
        return measured()

    return circuit


def cross_entropy(probs):
    return -jnp.sum(TARGET * jnp.log(probs))


def overlap(state):
    return jnp.abs(jnp.vdot(WEIGHTS, state)) ** 2 + jnp.imag(state[2])


def everything(results):
    probs, mean, variance, _ = results
    return mean * jnp.sum(probs**3) + variance


MEASURED = {
    "probs": (qml.probs, cross_entropy),
    "variance": (lambda: qml.var(qml.Z(0) @ qml.X(1) + 0.5 * qml.Y(2)), jnp.sin),
    "state": (qml.state, overlap),
    "several": (
        lambda: (
            qml.probs([2, 0]),
            qml.expval(qml.Y(1)),
            qml.var(qml.Hermitian(np.array([[1, 2j], [-2j, 3]]), 1)),
            qml.expval(qml.Z(0)),
        ),
        everything,
    ),
    "purity": (lambda: qml.purity([0]), jnp.exp),
}


def losses(measured):
    measure, loss = MEASURED[measured]
    circuits = (circuit_on(name, measure) for name in ("lightning.qubit", "default.qubit"))
    return tuple(lambda x, circuit=circuit: loss(circuit(x)) for circuit in circuits)


@pytest.mark.parametrize("measured", MEASURED)
def test_gradients(measured):
    ours, reference = losses(measured)
    value, gradient = bellhop.qjit(jax.value_and_grad(ours))(X)
    expected, by_backpropagation = jax.jit(jax.value_and_grad(reference))(X)
    np.testing.assert_allclose(value, expected, atol=1e-12)
    np.testing.assert_allclose(gradient, by_backpropagation, atol=1e-10)


@pytest.mark.parametrize("measured", ["several", "purity"])
def test_rows_that_share_an_input(measured):
    rows = jnp.asarray(RANDOM.normal(size=(5, 5)))
    ours, reference = (
        jax.grad(lambda x, f=f: jnp.sum(jax.vmap(f)(x * rows) ** 2)) for f in losses(measured)
    )
    np.testing.assert_allclose(bellhop.qjit(ours)(X), jax.jit(reference)(X), atol=1e-10)


@pytest.mark.hessian
def test_forward_mode_and_second_derivatives():
    ours, reference = losses("several")

    def both(f):
        return lambda x: jnp.vstack([jax.jacfwd(f)(x), jax.hessian(f)(x)])

    np.testing.assert_allclose(bellhop.qjit(both(ours))(X), jax.jit(both(reference))(X), atol=1e-10)


def test_nothing_but_the_vjp_is_computed():
    ours, _ = losses("probs")
    gradient = bellhop.qjit(jax.grad(ours))
    gradient(X)
    text = gradient.compiled_function.as_text()
    calls = re.findall(r'custom_call_target="bellhop_(\w+)"', text)
    assert calls == ["circuit_run", "circuit_run"]


SECOND = {
    "forward of forward": lambda f: jax.jacfwd(jax.jacfwd(f)),
    "reverse of forward": lambda f: jax.jacrev(jax.jacfwd(f)),
    "forward of reverse": jax.hessian,
    "reverse of reverse": lambda f: jax.jacrev(jax.grad(f)),
    "of a batch": lambda f: lambda x: jax.vmap(jax.hessian(f))(jnp.stack([x, 2 * x])),
    "of an iteration": lambda f: jax.hessian(
        lambda x: jax.lax.scan(
            lambda total, _: (jnp.sin(total) + f(total * x), None), 0.3, None, 2
        )[0]
    ),
}


@pytest.mark.hessian
@pytest.mark.parametrize("measure", ["state", "purity"])
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.quick if n == "forward of reverse" else ()) for n in SECOND],
)
def test_second_derivatives_of_what_the_engine_differentiates_once(measure, name):
    ours, reference = losses(measure)
    expected = jax.jit(SECOND[name](reference))(X)
    np.testing.assert_allclose(bellhop.qjit(SECOND[name](ours))(X), expected, atol=1e-10)


@pytest.mark.hessian
def test_third_derivatives_of_what_the_engine_differentiates_once():
    third = lambda f: (
        lambda x: jax.jvp(lambda x: jax.jvp(jax.grad(f), (x,), (x,))[1], (x,), (x,))[1]
    )
    ours, reference = losses("state")
    np.testing.assert_allclose(
        bellhop.qjit(third(ours))(X), jax.jit(third(reference))(X), atol=1e-10
    )


def test_the_plugin_shifts_parameters():
    ours, reference = losses("probs")
    by_plugin = bellhop.qjit(jax.grad(ours), engine="plugin")(X)
    np.testing.assert_allclose(by_plugin, jax.jit(jax.grad(reference))(X), atol=1e-10)


def test_the_adjoint_method_of_a_plugin_has_expectation_values_only():
    circuit = circuit_on("lightning.qubit", qml.probs, diff_method="adjoint")
    message = "measures var or probs and is differentiated with diff_method='adjoint'"
    with pytest.raises(bellhop.CompileError, match=message):
        bellhop.qjit(jax.jacobian(circuit), engine="plugin")(X)
    reference = jax.jit(jax.jacobian(circuit_on("default.qubit", qml.probs)))(X)
    np.testing.assert_allclose(bellhop.qjit(jax.jacobian(circuit))(X), reference, atol=1e-10)
