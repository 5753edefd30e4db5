"""Shots after postselection: drawn from the distribution that it leaves, everywhere."""

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from branch_simulation import WIRES, distribution, index_of, likelihood, random_circuit, run

import bellhop

DEVICES = ["lightning.qubit", "default.qubit"]
FILL = -(2**31)


def with_shots(body: Any, device: str, shots: Any, wires: int = WIRES, **options: Any) -> Any:
    return qml.set_shots(qml.QNode(body, qml.device(device, wires=wires), **options), shots)


@pytest.mark.parametrize(
    ("device", "seed"), [*((DEVICES[0], seed) for seed in range(4)), (DEVICES[1], 4)]
)
def test_random_circuits_against_all_branches(device: str, seed: int) -> None:
    circuit = random_circuit(seed)

    def body() -> Any:
        outcomes = run(circuit)
        return qml.sample(outcomes), qml.sample(wires=range(WIRES))

    drawn = bellhop.qjit(with_shots(body, device, 3000), seed=seed)()
    indices = index_of(np.hstack(drawn))
    assert likelihood(indices, distribution(circuit)) > 1e-3


@pytest.mark.parametrize("device", DEVICES)
def test_one_random_run_is_postselected_too(device: str) -> None:
    circuit = random_circuit(5)
    options = {"mcm_method": "single-branch-statistics"}
    node = qml.QNode(lambda: run(circuit), qml.device(device, wires=WIRES), **options)

    @bellhop.qjit(seed=2)
    def many() -> Any:
        return jax.lax.map(lambda _: jnp.stack(node()), jnp.arange(1500))

    by_outcomes = distribution(circuit).reshape(-1, 2**WIRES).sum(axis=1)
    assert likelihood(index_of(many().astype(int)), by_outcomes) > 1e-3


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("mode", "method"), [("fill-shots", "one-shot"), ("hw-like", "single-branch-statistics")]
)
def test_impossible_postselection_keeps_no_shot(device: str, mode: str, method: str) -> None:
    def body() -> Any:
        qml.H(0)
        qml.H(0)
        m = bellhop.measure(0, postselect=1)
        return qml.expval(m), qml.probs(wires=0), qml.sample(wires=1), qml.counts(wires=0)

    options = {"postselect_mode": mode, "mcm_method": method}
    program = bellhop.qjit(with_shots(body, device, 3, **options), seed=1)
    mean, probs, sample, (_, counts) = program()
    assert np.isnan(mean)
    assert np.isnan(probs).all()
    assert (sample == FILL).all()
    assert not counts.any()


@pytest.mark.parametrize("device", DEVICES)
def test_impossible_postselection_without_shots(device: str) -> None:
    @bellhop.qjit
    @bellhop.value_and_grad
    @qml.qnode(qml.device(device, wires=2))
    def circuit(x: Any) -> Any:
        # In exact arithmetic there is nothing of 1 here.
        qml.H(0)
        qml.H(0)
        qml.RX(x, 1)
        bellhop.measure(0, postselect=1)
        return qml.expval(qml.Z(1))

    assert np.isnan(circuit(0.3)).all()


def test_an_unlikely_postselection_fails_once() -> None:
    """How unlikely it is costs nothing, and neither does what stands in front of it."""
    angle = 2e-3

    def body() -> Any:
        qml.H(0)
        m = bellhop.measure(0)
        qml.RX(angle + angle * m, 1)
        bellhop.measure(1, postselect=1, reset=True)
        qml.RX(angle, 1)
        bellhop.measure(1, postselect=1)
        return qml.expval(m)

    program = bellhop.qjit(with_shots(body, "lightning.qubit", 4000), seed=5)
    start = time.perf_counter()
    # The second way is four times as likely.
    assert program() == pytest.approx(0.8, abs=0.03)
    assert time.perf_counter() - start < 1


def test_unlikely_ways_after_a_postselection_count() -> None:
    """Without shots, what is left out as too unlikely is so beside the postselection."""
    small = 1e-6

    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def circuit() -> Any:
        qml.RX(2 * small, 0)
        bellhop.measure(0, postselect=1)
        qml.RX(2e-3, 1)
        return qml.expval(bellhop.measure(1))

    assert circuit() == pytest.approx(np.sin(1e-3) ** 2, rel=1e-6)


def test_in_a_loop_of_unknown_length() -> None:
    """Coins until one is tails; all that were heads are followed by a likely end of the shot."""

    def body(p: Any) -> Any:
        @bellhop.while_loop(lambda state: state[0])
        def until_tails(state: Any) -> Any:
            qml.RY(jnp.pi / 2, 0)
            heads = bellhop.measure(0, reset=True)
            qml.RY(2 * jnp.arcsin(jnp.sqrt(jnp.where(heads, p, 0.0))), 1)
            bellhop.measure(1, postselect=0)
            return heads, state[1] + heads

        return until_tails((True, 0))[1]

    program = bellhop.qjit(with_shots(body, "lightning.qubit", 4000, wires=2), seed=3)
    p = 0.6
    numbers = np.arange(64)
    expected = (0.5 * (1 - p)) ** numbers
    assert likelihood(np.asarray(program(p)), expected / expected.sum()) > 1e-3


def test_what_python_says_may_differ_from_run_to_run() -> None:
    """Then nothing of a failed run tells about the next."""
    rng = np.random.default_rng(4)

    def body() -> Any:
        angle = bellhop.io_callback(lambda: np.pi * rng.integers(2), float)()
        qml.RX(angle, 0)
        m = bellhop.measure(0)
        bellhop.cond(m)(lambda: qml.RX(np.pi / 2, 1))()
        bellhop.measure(1, postselect=0)
        return qml.expval(m)

    program = bellhop.qjit(with_shots(body, "lightning.qubit", 3000, wires=2), seed=3)
    assert program() == pytest.approx(1 / 3, abs=0.04)


@pytest.mark.parametrize("device", DEVICES)
def test_hardware_like(device: str) -> None:
    """Half of the shots are dropped; what is left has the same distribution."""

    def body() -> Any:
        qml.H(0)
        m = bellhop.measure(0)
        qml.RX(1.0 + m, 1)
        bellhop.measure(1, postselect=1)
        wires = qml.sample(wires=[0, 1]), qml.counts(wires=0), qml.probs(wires=0)
        return m, wires, qml.expval(qml.Z(0)), qml.var(m), qml.sample(qml.Z(1)), qml.sample(m)

    program = with_shots(body, device, (700, 800), wires=2, postselect_mode="hw-like")
    for copy, shots in zip(bellhop.qjit(program, seed=6)(), (700, 800), strict=True):
        values, (sample, (_, counts), probs), mean, variance, eigenvalues, outcomes = copy
        kept = np.asarray(sample)[:, 0] != FILL
        assert sample.shape == (shots, 2)
        odds = np.sin([0.5, 1.0]) ** 2 / 2
        assert kept.mean() == pytest.approx(odds.sum(), abs=0.06)
        assert (np.asarray(sample)[~kept] == FILL).all()
        assert (np.asarray(sample)[kept, 1] == 1).all()
        ones = np.asarray(sample)[kept, 0]
        assert ones.mean() == pytest.approx(odds[1] / odds.sum(), abs=0.06)
        np.testing.assert_array_equal(outcomes, np.asarray(sample)[:, 0])
        np.testing.assert_array_equal(np.asarray(values)[kept], ones)
        np.testing.assert_array_equal(np.asarray(eigenvalues), np.where(kept, -1, FILL))
        np.testing.assert_array_equal(counts, np.bincount(ones))
        np.testing.assert_allclose(probs, np.bincount(ones) / kept.sum())
        assert mean == pytest.approx(1 - 2 * ones.mean())
        assert variance == pytest.approx(ones.var())


def test_samples_without_a_fill_value() -> None:
    def body() -> Any:
        bellhop.measure(0, postselect=0)
        return qml.sample(wires=0, dtype=bool)

    with pytest.raises(bellhop.CompileError, match="samples of type bool after a postselection"):
        bellhop.qjit(with_shots(body, "lightning.qubit", 3, wires=1))()


def test_batches_of_a_postselected_circuit() -> None:
    def body(x: Any) -> Any:
        qml.RX(x, 0)
        m = bellhop.measure(0)
        bellhop.cond(m)(lambda: qml.X(1))()
        bellhop.measure(1, postselect=1)
        return qml.expval(m)

    program = bellhop.vmap(with_shots(body, "lightning.qubit", 20, wires=2))
    means = bellhop.qjit(program, seed=6)(jnp.array([0.0, 0.4, np.pi]))
    np.testing.assert_array_equal(means, [np.nan, 1, 1])
