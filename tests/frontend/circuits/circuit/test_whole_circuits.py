"""A circuit of straight-line gates is one custom call, and so is its gradient."""

import re

import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop
from bellhop import CircuitError

X = np.random.default_rng(4).uniform(size=(2, 3, 2))


def circuit_on(device: str, **options):
    @qml.qnode(qml.device(device, wires=3), **options)
    def circuit(x):
        for layer in x:
            for wire in range(3):
                qml.RY(layer[wire, 0], wire)
                qml.RZ(layer[wire, 1], wire)
            for wire in range(3):
                qml.CNOT([wire, (wire + 1) % 3])
        return qml.expval(qml.Z(0) @ qml.X(1))

    return circuit


def calls_and_loops(compiled) -> tuple[list[str], int]:
    text = compiled.compiled_function.as_text()
    return re.findall(r'custom_call_target="bellhop_(\w+)"', text), text.count(" while(")


def test_value_and_gradient_are_one_call_without_loops():
    circuit = circuit_on("lightning.qubit", diff_method="adjoint")
    value_and_gradient = bellhop.qjit(lambda x: bellhop.value_and_grad(circuit)(x))
    value, gradient = value_and_gradient(jnp.asarray(X))
    assert calls_and_loops(value_and_gradient) == (["circuit_run"], 0)
    reference = circuit_on("default.qubit")
    np.testing.assert_allclose(value, reference(X), atol=1e-12)
    step = 1e-6 * np.eye(X.size).reshape(X.size, *X.shape)
    expected = [(reference(X + h) - reference(X - h)) / 2e-6 for h in step]
    np.testing.assert_allclose(np.ravel(gradient), expected, atol=1e-8)


def test_the_plugin_runs_it_too():
    compiled = bellhop.qjit(circuit_on("lightning.qubit"), engine="plugin")
    np.testing.assert_allclose(compiled(X), circuit_on("default.qubit")(X), atol=1e-12)
    assert calls_and_loops(compiled) == (["circuit_run"], 0)


def test_failure_names_the_circuit_and_ends_it():
    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def bits(x):
        qml.BasisState(x, wires=[0, 1])
        return qml.probs()

    with pytest.raises(CircuitError, match=r"QNode 'bits' .*circuits.py:57.* expected 0 or 1 for"):
        bits(jnp.array([2, 1]))
    np.testing.assert_allclose(bits(jnp.array([0, 1])), [0, 1, 0, 0])
