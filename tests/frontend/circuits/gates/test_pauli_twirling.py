"""Pauli twirling: no result changes on an ideal device, and noise models see the Paulis."""

import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop
from bellhop.passes import pauli_twirling

STRENGTH = 0.3


def ansatz(x):
    qml.RX(x, 0)
    qml.RY(0.3, 1)
    qml.CNOT([0, 1])

    @bellhop.for_loop(0, 3, 1)
    def loop(i):
        qml.CZ([1, 2])
        qml.RX(x * i, 2)
        qml.CNOT([2, 0])

    loop()


def mean(x):
    ansatz(x)
    return qml.expval(qml.Z(0) @ qml.X(1))


def state(x):
    ansatz(x)
    return qml.state()


@pytest.mark.parametrize("name", ["lightning.qubit", "default.qubit"])
@pytest.mark.parametrize("function", [mean, state])
def test_every_call_returns_the_value_without_twirling(name, function):
    circuit = qml.QNode(function, qml.device(name, wires=3))
    twirled, expected = bellhop.qjit(pauli_twirling(circuit)), bellhop.qjit(circuit)(0.4)
    for _ in range(4):
        np.testing.assert_allclose(twirled(0.4), expected, atol=1e-12)


def test_gradients_and_batches():
    circuit = qml.QNode(mean, qml.device("lightning.qubit", wires=3))
    points = jnp.array([0.1, 0.7])
    for transform in (lambda f: bellhop.vmap(f), lambda f: bellhop.vmap(bellhop.grad(f))):
        twirled = bellhop.qjit(transform(pauli_twirling(circuit)))(points)
        np.testing.assert_allclose(twirled, bellhop.qjit(transform(circuit))(points), atol=1e-12)


def noisy(seed=None):
    """Return a QNode whose value is `cos(0.4)` times a factor for each noisy Pauli on wire 1."""
    depolarize = lambda op, **_: qml.DepolarizingChannel(STRENGTH, op.wires[0])
    model = qml.NoiseModel({qml.noise.op_in(["PauliX", "PauliY", "PauliZ"]): depolarize})

    def function(x):
        qml.RX(x, 0)
        qml.CNOT([0, 1])
        return qml.expval(qml.Z(1))

    device = qml.device("default.mixed", wires=2, seed=seed)
    return pauli_twirling(qml.add_noise(qml.QNode(function, device), model))


def values(function):
    return [float(function(0.4)) for _ in range(8)]


def test_noise_models_see_the_paulis_as_gates():
    found = values(bellhop.qjit(noisy(seed=3)))
    factors = (1 - 4 * STRENGTH / 3) ** np.arange(5)
    distances = np.abs(np.array(found)[:, None] - np.cos(0.4) * factors)
    assert distances.min(axis=1).max() < 1e-12
    assert len(set(np.round(found, 9))) > 1


def test_seeds_repeat_the_draws():
    for circuit, options in ((noisy(), {"seed": 1}), (noisy(seed=3), {})):
        again = circuit if options else noisy(seed=3)
        assert values(bellhop.qjit(circuit, **options)) == values(bellhop.qjit(again, **options))


def test_noise_on_a_tape_would_not_see_the_paulis():
    folded = qml.map_wires(noisy(), {0: 1, 1: 0})
    with pytest.raises(
        bellhop.CompileError, match="pauli_twirling is not supported with the noise"
    ):
        bellhop.qjit(folded)(0.4)
