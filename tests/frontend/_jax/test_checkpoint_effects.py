"""Effects under ``jax.checkpoint`` happen, whoever uses what is computed beside them."""

import jax
import numpy as np
import pennylane as qml
import pytest

import bellhop


@pytest.mark.parametrize(
    "transform",
    [bellhop.qjit, jax.jit, jax.grad, bellhop.grad, lambda f: bellhop.qjit(jax.grad(f))],
    ids=["qjit", "jit", "jax.grad", "grad", "grad in qjit"],
)
@pytest.mark.parametrize("in_circuit", [False, True])
def test_what_nobody_uses(transform, in_circuit):
    seen = []

    @jax.checkpoint
    def effect(x):
        bellhop.io_callback(seen.append, None, ordered=True)(3)
        return x

    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        qml.RX(x, 0)
        effect(x)
        return qml.expval(qml.Z(0))

    def function(x):
        effect(x)
        return x * x

    transform(bellhop.qjit(circuit) if in_circuit else function)(0.3)
    bellhop.barrier_wait()
    assert seen == [3]


def wave(x):
    qml.RX(x, 0)
    return qml.expval(qml.Z(0))


def wave_after_an_outcome(x):
    qml.RX(x, 0)
    qml.RY(x, 1)
    bellhop.cond(bellhop.measure(0))(lambda: qml.RX(x, 1))()
    return qml.expval(qml.Z(1))


@pytest.mark.parametrize("in_loop", [False, True])
@pytest.mark.parametrize(
    ("function", "device"),
    [
        (wave, "default.qubit"),
        (wave, "lightning.qubit"),
        (wave_after_an_outcome, "lightning.qubit"),
        (wave, "default.mixed"),
    ],
)
def test_what_is_drawn_is_not_drawn_again(function, device, in_loop):
    """The derivative of the square has the value as a factor, of the same shots."""
    circuit = qml.set_shots(qml.QNode(function, qml.device(device, wires=2)), 7)

    def square(x):
        if in_loop:
            means = jax.lax.map(lambda i: circuit(x + i), jax.numpy.arange(3.0))
            return jax.numpy.sum(means**2)
        return circuit(x) ** 2

    results = [
        bellhop.qjit(jax.value_and_grad(each), seed=5)(0.6)
        for each in (square, jax.checkpoint(square))
    ]
    assert results[0][0] != 0
    np.testing.assert_allclose(results[1], results[0], rtol=1e-12)


def test_what_a_loop_of_computed_length_draws():
    circuit = qml.set_shots(qml.QNode(wave, qml.device("lightning.qubit", wires=1)), 7)

    def sum_of(x, y, n):
        return jax.lax.fori_loop(0, n, lambda i, total: total + circuit(y), 0.0)

    @jax.checkpoint
    def product(x, y, n):
        return jax.numpy.sin(x * sum_of(x, y, n))

    value, slope = bellhop.qjit(jax.value_and_grad(product), seed=1)(0.5, 1.2, 3)
    total = np.arcsin(value) / 0.5
    assert total != 0
    np.testing.assert_allclose(slope, total * np.cos(0.5 * total), rtol=1e-9)
    refused = bellhop.qjit(bellhop.grad(product, argnums=1))
    with pytest.raises(bellhop.CompileError, match="that draws outcomes cannot be differentiated"):
        refused(0.5, 1.2, 3)
