"""The engine draws samples, of circuits alone and of rows, and outcomes in the middle."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from scipy.stats import chisquare
from tests.runtime.circuit_calls import HANDLE, Gate, Measurements, begin, call, end, gates, measure

import bellhop
from bellhop_runtime import _runtime

WIRES, SHOTS = 4, 20000


def _gates(x):
    for wire in range(WIRES):
        qml.RY(x * (wire + 1), wire)
        qml.RX(0.3 * wire + x, wire)
    for wire in range(WIRES - 1):
        qml.CNOT([wire, wire + 1])


def _circuit(function, shots=None):
    node = qml.QNode(function, qml.device("lightning.qubit", wires=WIRES))
    return qml.set_shots(node, shots)


def _all(x):
    _gates(x)
    return (
        qml.sample(),
        qml.counts(wires=[0, 2], all_outcomes=True),
        qml.expval(qml.Z(0) @ qml.X(1)),
        qml.probs(wires=[3, 1]),
    )


def _exact(x):
    _gates(x)
    return qml.probs(), qml.probs(wires=[0, 2]), qml.expval(qml.Z(0) @ qml.X(1))


def _check(frequencies, probabilities):
    assert chisquare(frequencies, probabilities * np.sum(frequencies)).pvalue > 1e-3


def _outcomes(samples):
    bits = np.asarray(samples)
    return np.bincount(bits @ (2 ** np.arange(bits.shape[1])[::-1]), minlength=2 ** bits.shape[1])


def _equal(first, second):
    jax.tree.map(np.testing.assert_array_equal, first, second)


def test_statistics_of_one_circuit():
    program = bellhop.qjit(_circuit(_all, SHOTS), seed=3)
    before = _runtime.rows_in_engine()
    found = samples, (_, counts), mean, frequencies = program(0.4)
    # X is measured in a basis of its own.
    assert _runtime.rows_in_engine() == before + 2
    probabilities, of_two, expected = bellhop.qjit(_circuit(_exact))(0.4)
    _check(_outcomes(samples), probabilities)
    _check(counts, of_two)
    assert abs(mean - expected) < 5 * np.sqrt((1 - expected**2) / SHOTS)
    # Those of one basis are of the same samples.
    _equal(counts, _outcomes(np.asarray(samples)[:, [0, 2]]))
    _equal(frequencies * SHOTS, _outcomes(np.asarray(samples)[:, [3, 1]]))
    _equal(program(0.4), found)
    _equal(bellhop.qjit(_circuit(_all, SHOTS), seed=3)(0.4), found)


def test_rows_draw_samples_of_their_own():
    rows = bellhop.vmap(_circuit(lambda x: (_gates(x), qml.sample())[1], SHOTS))
    program = bellhop.qjit(rows, seed=5)
    angles = jnp.array([0.4, 0.4, 0.7])
    before = _runtime.rows_in_engine()
    samples = program(angles)
    assert _runtime.rows_in_engine() == before + 3
    probabilities = bellhop.qjit(bellhop.vmap(_circuit(_exact)))(angles)[0]
    for of_row, expected in zip(samples, probabilities, strict=True):
        _check(_outcomes(of_row), expected)
    assert np.any(samples[0] != samples[1])
    _equal(program(angles), samples)


@pytest.mark.parametrize("postselect", [None, 1])
def test_outcomes_are_drawn(postselect):
    def measured(x):
        _gates(x)
        first = bellhop.measure(0, reset=True)

        def turn():
            qml.RX(x, 1)

        bellhop.cond(first)(turn)()
        bellhop.measure(1, postselect=postselect)
        qml.CNOT([0, 2])
        return first

    def sampled(x):
        first = measured(x)
        return qml.sample(wires=[2, 3]), qml.expval(first)

    def exact(x):
        first = measured(x)
        return qml.probs(wires=[2, 3]), qml.expval(first)

    shots = 2000
    program = bellhop.qjit(_circuit(sampled, shots), seed=1)
    before = _runtime.rows_in_engine()
    found = samples, mean = program(0.4)
    # A run that is postselected is that of one shot.
    assert _runtime.rows_in_engine() - before >= (4 if postselect is None else shots)
    probabilities, expected = bellhop.qjit(_circuit(exact))(0.4)
    _check(_outcomes(samples), probabilities)
    assert abs(mean - expected) < 4 * np.sqrt(expected * (1 - expected) / shots)
    _equal(program(0.4), found)


def test_the_state_of_a_branch_is_normalized():
    def circuit(x):
        _gates(x)
        outcome = bellhop.measure(2)
        qml.RY(x, 2)
        return qml.state(), qml.probs(wires=2), outcome

    branch = qml.QNode(
        circuit,
        qml.device("lightning.qubit", wires=WIRES),
        mcm_method="single-branch-statistics",
    )
    before = _runtime.rows_in_engine()
    state, probabilities, outcome = bellhop.qjit(branch, seed=2)(0.4)
    assert _runtime.rows_in_engine() > before
    np.testing.assert_allclose(np.linalg.norm(state), 1, atol=1e-12)
    one = np.sin(0.2) ** 2
    expected = [one, 1 - one] if outcome else [1 - one, one]
    np.testing.assert_allclose(probabilities, expected, atol=1e-12)


def test_the_plugin_goes_on_with_the_same_seed():
    """What the engine does not do comes after it has drawn an outcome."""
    wanted = Measurements([4, 2, 0, 1], [], [jax.ShapeDtypeStruct((200, 2), np.uint8)])

    @jax.jit
    def program(seed):
        state = begin(2, seed, shots=200, seeded=True)
        state = gates(state, [Gate("Hadamard", [0])])
        attributes = {"postselect": np.int64(-1), "reset": np.int64(0)}
        bit = jax.ShapeDtypeStruct((), np.bool_)
        target = "bellhop_circuit_mid_measure"
        state, first = call(target, (HANDLE, bit), state, jnp.int32(0), site="", **attributes)
        state = gates(state, [Gate("PCPhase", [0, 1], [0.3, 2]), Gate("Hadamard", [1])])
        state, samples = measure(state, wanted)
        end(state)
        return first, samples

    before = _runtime.rows_in_engine()
    drawn = [program(np.array([0, 0, 0, word], np.uint32)) for word in range(8)]
    assert _runtime.rows_in_engine() == before
    assert {bool(first) for first, _ in drawn} == {False, True}
    for first, samples in drawn:
        assert np.all(samples[:, 0] == first)
        assert 60 < np.sum(samples[:, 1]) < 140
    _equal(program(np.zeros(4, np.uint32)), drawn[0])
