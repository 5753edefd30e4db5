"""Frequencies of many shots are drawn by binomial numbers, as they are distributed."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from scipy.stats import binom, chi2_contingency, chisquare

import bellhop

LEAST = 1e-3


def _program(function, wires, shots, *, seed=0):
    node = qml.set_shots(qml.QNode(function, qml.device("lightning.qubit", wires=wires)), shots)
    return bellhop.qjit(bellhop.vmap(node), seed=seed)


def _rotated(angles, wires):
    for wire in range(wires):
        qml.RY(angles + 0.4 * wire, wire)
    for wire in range(wires - 1):
        qml.CNOT([wire, wire + 1])


def _angle(probability):
    return 2 * np.arcsin(np.sqrt(probability))


@pytest.mark.parametrize(
    ("shots", "probability"),
    [(8, 0.5), (200, 0.03), (200, 0.4), (200, 0.97), (10**6, 1e-6), (10**9, 0.3)],
)
def test_counts_of_one_wire_are_binomial(shots, probability):
    def circuit(x):
        qml.RY(x, 0)
        return qml.counts(all_outcomes=True)

    rows = 20_000
    _, counts = _program(circuit, 1, shots)(jnp.full(rows, _angle(probability)))
    assert np.all(np.sum(counts, axis=1) == shots)
    law = binom(shots, probability)
    # Bins of about as many rows each, less where single counts are likelier.
    ends = np.unique(law.ppf(np.linspace(0, 1, 21)[1:-1]))
    expected = rows * np.diff([0, *law.cdf(ends), 1])
    found = np.bincount(np.searchsorted(ends, counts[:, 1]), minlength=len(ends) + 1)
    assert chisquare(found[expected > 5], _scaled(expected, found)).pvalue > LEAST


def _scaled(expected, found):
    kept = expected > 5
    return expected[kept] * np.sum(found[kept]) / np.sum(expected[kept])


@pytest.mark.parametrize("shots", [100, 1000])
def test_counts_of_several_wires_have_the_covariance_of_shots(shots):
    """Of 100 shots and 32 outcomes each shot is drawn, of 1000 the counts are."""

    def circuit(x):
        _rotated(x, 5)
        return qml.counts(all_outcomes=True)

    rows = 4000
    _, counts = _program(circuit, 5, shots)(jnp.full(rows, 0.3))
    exact = qml.QNode(lambda x: (_rotated(x, 5), qml.probs())[1], qml.device("default.qubit", 5))
    p = np.asarray(exact(0.3))
    total = np.sum(counts, axis=0)
    kept = p * rows * shots > 5
    assert chisquare(total[kept], p[kept] / p[kept].sum() * total[kept].sum()).pvalue > LEAST
    covariance = shots * (np.diag(p) - np.outer(p, p))
    found = np.cov(np.asarray(counts).T)
    deviation = np.sqrt((np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2) / rows)
    assert np.all(np.abs(found - covariance) < 5.5 * deviation + shots * 1e-4)


@pytest.mark.parametrize("shots", [20, 10_000])
def test_measurements_of_a_run_are_of_the_same_shots(shots):
    def circuit(x):
        _rotated(x, 4)
        return (
            qml.probs(wires=[2, 0]),
            qml.expval(qml.Z(0) @ qml.Z(2)),
            qml.expval(qml.Z(2)),
            qml.var(qml.Z(0)),
            qml.counts(wires=[0], all_outcomes=True),
        )

    found = _program(circuit, 4, shots)(jnp.linspace(0.1, 1, 20))
    probs, both, of_two, variance, (_, counts) = jax.tree.map(np.asarray, found)
    np.testing.assert_allclose(both, probs @ [1, -1, -1, 1], atol=1e-12)
    np.testing.assert_allclose(of_two, probs @ [1, 1, -1, -1], atol=1e-12)
    np.testing.assert_allclose(counts / shots, probs.reshape(-1, 2, 2).sum(axis=1), atol=1e-12)
    mean = probs @ [1, -1, 1, -1]
    np.testing.assert_allclose(variance, 1 - mean**2, atol=1e-12)


def test_groups_of_a_shot_vector_are_independent():
    def circuit(x):
        qml.RY(x, 0)
        qml.CNOT([0, 1])
        return qml.counts(wires=[1], all_outcomes=True)

    groups = (60, 1, 60, 3)
    rows = 5000
    found = _program(circuit, 2, groups)(jnp.full(rows, np.pi / 2))
    ones = np.stack([np.asarray(counts)[:, 1] for _, counts in found])
    for shots, (_, counts) in zip(groups, found, strict=True):
        assert np.all(np.sum(counts, axis=1) == shots)
        assert abs(np.mean(counts[:, 1]) / shots - 0.5) < 5 * np.sqrt(0.25 / shots / rows)
    correlations = np.corrcoef(ones)[np.triu_indices(len(groups), 1)]
    assert np.all(np.abs(correlations) < 4.5 / np.sqrt(rows))
    table = np.histogram2d(ones[0] > 30, ones[2] > 30, bins=2)[0]
    assert chi2_contingency(table).pvalue > LEAST


def test_single_precision_and_state_with_zeros():
    def circuit(x):
        qml.RY(x, 0)
        for wire in range(1, 4):
            qml.CNOT([0, wire])
        return qml.counts(all_outcomes=True), qml.expval(qml.Z(0) @ qml.Z(3))

    device = qml.device("lightning.qubit", wires=4, c_dtype=np.complex64)
    node = qml.set_shots(qml.QNode(circuit, device), 10**6)
    (_, counts), mean = bellhop.qjit(node, seed=1)(jnp.float32(1.0))
    assert mean == 1
    assert set(np.flatnonzero(counts)) == {0, 15}
    one = np.sin(0.5) ** 2
    assert abs(counts[15] / 10**6 - one) < 5 * np.sqrt(one * (1 - one) / 10**6)


def test_the_derivative_of_drawn_frequencies_is_unbiased():
    def circuit(x):
        qml.RY(x, 0)
        qml.RX(0.3, 1)
        qml.CNOT([0, 1])
        return qml.expval(qml.Z(1))

    # The derivative is that of how likely the cells were; lightning.qubit shifts parameters.
    node = qml.set_shots(qml.QNode(circuit, qml.device("default.qubit", wires=2)), 500)
    found = bellhop.qjit(bellhop.vmap(bellhop.grad(node)), seed=4)(jnp.full(4000, 0.8))
    exact = -np.sin(0.8) * np.cos(0.3)
    assert abs(np.mean(found) - exact) < 5 * np.std(found) / np.sqrt(len(found))
    # Of one shot, the score of its outcome has a variance of at most the Fisher information.
    assert np.std(found) < 1.5 / np.sqrt(500)


_HASHES_OF_RESULTS = """
import hashlib, os
os.sched_setaffinity(0, {cores})
import bellhop, jax, numpy as np, pennylane as qml

def gates(x):
    for wire in range(14):
        qml.RY(x + wire, wire)
        qml.CNOT([wire, (wire + 1) % 14])

def samples(x):
    gates(x)
    return qml.sample(), qml.probs(wires=range(12))

def frequencies(x):
    gates(x)
    return qml.counts(all_outcomes=True), qml.expval(qml.Z(0) @ qml.Z(1))

device = qml.device("lightning.qubit", wires=14)
for function in (samples, frequencies):
    node = qml.set_shots(qml.QNode(function, device), (3, 200_000))
    for leaf in jax.tree.leaves(bellhop.qjit(node, seed=5)(0.3)):
        print(hashlib.sha256(np.asarray(leaf).tobytes()).hexdigest())
"""


@pytest.mark.subprocess
def test_results_of_a_seed_do_not_depend_on_the_number_of_threads():
    cores = sorted(os.sched_getaffinity(0))
    one, all_ = (
        subprocess.run(
            [sys.executable, "-c", _HASHES_OF_RESULTS.format(cores=used)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for used in ({cores[0]}, set(cores))
    )
    assert one == all_
    assert len(one.split()) == 2 * (2 + 3)


def test_counts_have_no_derivative():
    def circuit(x):
        qml.RX(x, 0)
        return qml.counts(all_outcomes=True)

    node = qml.set_shots(qml.QNode(circuit, qml.device("lightning.qubit", wires=1)), 100)
    with pytest.raises(bellhop.CompileError, match="which have no derivative"):
        bellhop.qjit(bellhop.grad(lambda x: jnp.sum(node(x)[1] * 1.0)))(0.3)
