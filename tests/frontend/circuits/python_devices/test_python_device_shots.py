"""Shots on devices that are Python objects: types of samples and counts, seeds, postselection."""

import jax
import numpy as np
import pennylane as qml
import pytest
from tests.frontend.circuits.python_devices.counting_device import CalledMixed, CountingDevice

import bellhop


def circuit(x):
    qml.RX(x, 0)
    qml.CNOT([0, 1])
    return qml.sample(), qml.expval(qml.Z(0)), qml.probs([1]), qml.sample(qml.X(0) @ qml.X(1))


def counting(x):
    qml.RX(x, 0)
    qml.CNOT([0, 1])
    return qml.counts(), qml.counts(qml.Z(0))


def sampled(function, shots, **options):
    return qml.set_shots(qml.QNode(function, CalledMixed(wires=3, **options)), shots)


@pytest.mark.parametrize("shots", [6, (5, (6, 2))])
def test_types(shots):
    qnode = sampled(circuit, shots)
    ours, theirs = bellhop.qjit(qnode)(0.8), qnode(0.8)
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert (one.shape, one.dtype) == (np.shape(other), np.asarray(other).dtype)


def test_frequencies():
    samples, mean, probabilities, _ = bellhop.qjit(sampled(circuit, 4000, seed=2))(0.8)
    np.testing.assert_array_equal(samples[:, 0], samples[:, 1])
    assert abs(np.mean(samples[:, 0]) - np.sin(0.4) ** 2) < 0.03
    assert abs(mean - np.cos(0.8)) < 0.06
    assert abs(probabilities[1] - np.sin(0.4) ** 2) < 0.03


def test_counts_are_of_all_values():
    (values, counts), (eigenvalues, of_them) = bellhop.qjit(sampled(counting, 1000, seed=2))(0.8)
    np.testing.assert_array_equal(values, range(8))
    assert counts[0] + counts[6] == sum(counts) == 1000
    np.testing.assert_array_equal(eigenvalues, [-1, 1])
    np.testing.assert_array_equal(of_them[1] > of_them[0], True)
    assert abs(counts[6] / 1000 - np.sin(0.4) ** 2) < 0.06


def test_seed_of_the_program():
    qnode = sampled(circuit, 20)
    one, same, other = (bellhop.qjit(qnode, seed=seed)(0.8)[3] for seed in (3, 3, 4))
    np.testing.assert_array_equal(one, same)
    assert np.any(np.asarray(one) != np.asarray(other))


def test_seed_of_a_device_whose_state_holds_the_generator():
    device = qml.device("lightning.qubit", wires=2, c_dtype=np.complex64)
    f = bellhop.qjit(qml.set_shots(qml.QNode(circuit, device), 20), seed=3)
    np.testing.assert_array_equal(f(0.8)[0], f(0.8)[0])


def test_seed_of_the_device():
    one, same = (bellhop.qjit(sampled(circuit, 20, seed=7))(0.8)[3] for _ in range(2))
    np.testing.assert_array_equal(one, same)


def test_calls_of_one_circuit_draw_each():
    qnode = sampled(circuit, 50)
    one, other = bellhop.qjit(lambda x: (qnode(x)[0], qnode(x)[0]))(1.5)
    assert np.any(np.asarray(one) != np.asarray(other))


def test_batch_with_shots():
    device = CountingDevice(wires=2)
    qnode = qml.set_shots(qml.QNode(circuit, device), 2000)
    samples, means, *_ = bellhop.qjit(jax.vmap(qnode))(np.array([0.3, 0.8, 1.2]))
    # Each of the three in two bases.
    assert device.batches == [6]
    assert samples.shape == (3, 2000, 2)
    np.testing.assert_allclose(means, np.cos([0.3, 0.8, 1.2]), atol=0.1)


def test_outcomes_in_the_middle():
    def measured(x):
        qml.RX(x, 0)
        m = bellhop.measure(0)
        bellhop.cond(m, lambda: qml.X(1))()
        return qml.sample(m), qml.sample(wires=1), qml.counts(m), qml.counts([m])

    outcomes, after, (values, counts), _ = bellhop.qjit(sampled(measured, 100, seed=1))(1.5)
    assert outcomes.shape == (100,)
    assert after.shape == (100, 1)
    np.testing.assert_array_equal(values, [0, 1])
    assert sum(counts) == 100
    assert 20 < counts[1] < 80


REFUSED = {
    "sample": (
        lambda: qml.sample(),
        "sample needs shots, and the QNode has none. Set them: put @qml.set_shots",
    ),
    "counts": (
        lambda: qml.counts(),
        "counts needs shots, and the QNode has none. Set them: put @qml.set_shots",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_samples_without_shots(name):
    measure, message = REFUSED[name]
    qnode = qml.QNode(lambda: measure(), CalledMixed(wires=1))
    with pytest.raises(bellhop.CompileError, match=message):
        bellhop.qjit(lambda: qnode())()


def test_counts_of_an_expression_of_outcomes():
    def measured():
        m, n = bellhop.measure(0), bellhop.measure(1)
        return qml.counts(m + n)

    with pytest.raises(bellhop.CompileError, match="counts of an expression of mid-circuit"):
        bellhop.qjit(sampled(measured, 10))()
