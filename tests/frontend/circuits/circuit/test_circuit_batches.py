"""Batches: circuits that vmap makes one call of the runtime, for all rows.

Values and derivatives are held against a loop of PennyLane's ``default.qubit``, not compiled, and
its own backpropagation.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.frontend.circuits.circuit.batched_circuits import (
    LIGHTNING,
    X,
    Y,
    compiled,
    derived,
    gates,
    looped,
    one_value,
    random,
    reference,
    rows_of,
    several,
    weighted,
)
from tests.patience import run_at_once

import bellhop
import bellhop_runtime
from bellhop.circuits.backends.compiled.differentiable import batch as batch_module
from bellhop_runtime import _runtime


def others(x, y):
    gates(x, y)
    return qml.var(qml.X(1)), qml.state(), qml.probs(), qml.var(qml.Z(0) @ qml.Y(2))


@pytest.mark.parametrize("function", [several, weighted, others])
def test_values(function, assert_close):
    mapped = bellhop.qjit(bellhop.vmap(compiled(function)))
    assert_close(mapped(X, Y), looped(reference(function), (0, 0), 0, (X, Y)))
    assert rows_of(mapped) == [5]
    assert "stablehlo.while" not in mapped.mlir_opt


AXES = st.tuples(*[st.sampled_from([None, 0, 1, -1]), st.sampled_from([None, 0])]).filter(
    lambda axes: axes != (None, None)
)


@pytest.mark.large
@settings(max_examples=12)
@given(axes=AXES, out_axes=st.sampled_from([0, 1, -1]), rows=st.integers(1, 4))
def test_axes(axes, out_axes, rows):
    def function(x, y):
        gates(x, y)
        return qml.probs(wires=[0, 2])

    x = {None: random(2), 0: random(rows, 2)}.get(axes[0], random(2, rows))
    y = random(rows) if axes[1] == 0 else jnp.float64(0.4)
    mapped = bellhop.qjit(bellhop.vmap(compiled(function), in_axes=axes, out_axes=out_axes))
    expected = looped(reference(function), axes, out_axes, (x, y))
    np.testing.assert_allclose(mapped(x, y), expected, rtol=0, atol=1e-9)


def test_batches_of_batches(assert_close):
    x, y = random(3, 4, 2), random(4)
    inner = {"in_axes": (0, None)}
    mapped = bellhop.qjit(bellhop.vmap(bellhop.vmap(compiled(several), **inner), in_axes=(1, 0)))
    rows = [looped(reference(several), (0, None), 0, (x[:, i], y[i])) for i in range(4)]
    assert_close(mapped(x, y), jax.tree.map(lambda *leaves: np.stack(leaves), *rows))
    assert rows_of(mapped) == [12]


@pytest.mark.parametrize("rows", [0, 1])
def test_no_rows_and_one(rows, assert_close):
    mapped = bellhop.qjit(bellhop.vmap(compiled(several)))
    values = mapped(X[:rows], Y[:rows])
    assert [value.shape for value in values] == [(rows,), (rows, 4), (rows,)]
    if rows:
        assert_close(values, looped(reference(several), (0, 0), 0, (X[:1], Y[:1])))
    gradient = bellhop.qjit(bellhop.vmap(bellhop.grad(compiled(one_value))))(X[:rows], Y[:rows])
    assert gradient.shape == (rows, 2)


def test_what_no_row_depends_on(assert_close):
    @qml.qnode(LIGHTNING)
    def circuit(x):
        qml.RX(0.3, wires=0)
        return qml.expval(qml.Z(0)), qml.probs(wires=1)

    mapped = bellhop.qjit(bellhop.vmap(circuit))(X)
    assert_close(mapped, (np.full(5, np.cos(0.3)), np.tile([1.0, 0.0], (5, 1))))


def test_measurements_in_the_middle(assert_close):
    """In the row at zero, an outcome does not happen that does in others."""

    def outcomes(x, y):
        gates(x, y)
        first = qml.measure(0, reset=True)
        qml.cond(first, qml.RX)(x[1], 1)
        second = qml.measure(1, postselect=1)
        qml.cond(second, qml.RY)(y, 0)
        return qml.expval(qml.X(0) @ qml.Z(2)), qml.probs(wires=[0, 2]), qml.expval(first)

    x, y = X.at[2].set(0.0).at[2, 1].set(0.4), Y + 0.1
    mapped = bellhop.qjit(bellhop.vmap(compiled(outcomes)))
    before = _runtime.rows_in_engine()
    values = mapped(x, y)
    assert _runtime.rows_in_engine() >= before + 2 * len(Y)
    uncompiled = qml.QNode(outcomes, qml.device("default.qubit"), mcm_method="deferred")
    assert_close(values, looped(uncompiled, (0, 0), 0, (x, y)))
    assert rows_of(mapped) == [5]
    slopes = bellhop.qjit(bellhop.vmap(bellhop.jacobian(compiled(outcomes))))(x, y)
    expected = jax.jit(jax.vmap(jax.jacobian(uncompiled)))(x, y)
    assert_close(jax.tree.leaves(slopes), jax.tree.leaves(expected))


def test_rows_that_measure_other_wires(assert_close):
    def measured(x, wire):
        qml.RX(x[0], 0)
        qml.RX(x[1], 1)
        outcome = bellhop.measure(wire)
        bellhop.cond(outcome, lambda: qml.RX(1.0, 2))()
        return qml.expval(qml.Z(2))

    wires = jnp.array([0, 1, 1, 0, 1])
    values = bellhop.qjit(bellhop.vmap(compiled(measured)))(X, wires)
    angles = np.take_along_axis(np.asarray(X), np.asarray(wires)[:, None], 1)[:, 0]
    one = np.sin(angles / 2) ** 2
    assert_close(values, 1 - one + one * np.cos(1.0))


def test_a_wire_that_is_not_there():
    def measured(x, wire):
        qml.RX(x, 0)
        return qml.expval(bellhop.measure(wire))

    mapped = bellhop.qjit(bellhop.vmap(compiled(measured), in_axes=(0, None)))
    for wire in (3, -1):
        with pytest.raises(bellhop.CircuitError, match=f"wire {wire} is not in the circuit"):
            mapped(Y, wire)


def test_effects_stay_in_order(capfd):
    @bellhop.qjit
    @bellhop.vmap
    @qml.qnode(LIGHTNING)
    def circuit(x):
        bellhop.debug.print("{}", x)
        qml.RX(x, wires=0)
        return qml.expval(qml.Z(0))

    circuit(jnp.arange(3.0)).block_until_ready()
    bellhop_runtime.wait_for_taps()
    assert capfd.readouterr().out.split() == ["0.0", "1.0", "2.0"]


def test_effects_of_all_rows_happen_once(assert_close):
    seen = []

    @qml.qnode(LIGHTNING)
    def circuit(x):
        qml.RX(x, wires=0)
        bellhop.debug.callback(lambda x: seen.append(float(x)), x)
        qml.RY(x * Y, wires=0)
        return qml.expval(qml.Z(0))

    def total(x):
        return jnp.sum(circuit(x))

    expected = np.cos(0.3) * np.sum(np.cos(0.3 * Y))
    value, gradient = bellhop.qjit(bellhop.value_and_grad(total))(0.3)
    jax.effects_barrier()
    assert seen == [0.3]
    slope = -np.sin(0.3) * np.sum(np.cos(0.3 * Y)) - np.cos(0.3) * np.sum(Y * np.sin(0.3 * Y))
    assert_close((value, gradient), (expected, slope))


def test_in_plain_jit_and_outside(assert_close):
    expected = looped(reference(several), (0, 0), 0, (X, Y))
    assert_close(jax.jit(bellhop.vmap(compiled(several)))(X, Y), expected)
    assert_close(bellhop.vmap(bellhop.qjit(compiled(several)))(X, Y), expected)
    gradient = jax.jit(jax.vmap(bellhop.grad(compiled(one_value))))(X, Y)
    assert_close(gradient, looped(derived(jax.grad, one_value), (0, 0), 0, (X, Y)))


def test_passes_of_circuits(assert_close):
    def turned(x):
        qml.RX(x, wires=0)
        qml.Hadamard(1)
        qml.Hadamard(1)
        qml.RX(2 * x, wires=0)
        qml.RX(0.1, wires=0)
        return qml.expval(qml.Y(0))

    passes = {"cancel_inverses": {}, "merge_rotations": {}}
    mapped = bellhop.qjit(circuit_transform_pipeline=passes)(bellhop.vmap(compiled(turned)))
    assert_close(mapped(Y), -np.sin(3 * Y + 0.1))
    assert rows_of(mapped) == [5]
    assert "Hadamard" not in mapped.mlir_opt


def test_large_batches_run_in_parts(monkeypatch, assert_close):
    monkeypatch.setattr(batch_module, "_MAX_PARAMS_PER_CALL", 16)
    mapped = bellhop.qjit(bellhop.vmap(compiled(several)))
    assert_close(mapped(X, Y), looped(reference(several), (0, 0), 0, (X, Y)))
    # Two rows at a time, as many as 16 parameters allow, and what is left.
    assert sorted(rows_of(mapped)) == [1, 2]


class TestShots:
    def sampled(self, rows, seed=42, n_rows=60):
        @bellhop.qjit(seed=seed)
        @bellhop.vmap
        @qml.set_shots(20)
        @qml.qnode(LIGHTNING)
        def circuit(x):
            qml.RX(x, wires=0)
            return qml.sample(wires=0), qml.expval(qml.Z(0))

        return circuit(jnp.full(n_rows, 1.3)[:rows])

    def test_rows_have_samples_of_their_own(self):
        samples, means = self.sampled(60)
        assert samples.shape == (60, 20, 1)
        samples = samples[..., 0]
        np.testing.assert_allclose(means, 1 - 2 * np.mean(samples, axis=1))
        assert len({tuple(row) for row in np.asarray(samples)}) > 50
        assert abs(np.mean(means) - np.cos(1.3)) < 5 * np.sin(1.3) / np.sqrt(1200)

    def test_samples_do_not_depend_on_who_draws_them(self):
        once, again, fewer = self.sampled(60), self.sampled(60), self.sampled(3)
        other = self.sampled(60, seed=43)
        for i in range(2):
            np.testing.assert_array_equal(once[i], again[i])
            # Few rows run on one thread alone.
            np.testing.assert_array_equal(once[i][:3], fewer[i])
            assert np.any(np.asarray(once[i]) != np.asarray(other[i]))

    def test_gradient(self):
        @qml.set_shots(4000)
        @qml.qnode(LIGHTNING, diff_method="parameter-shift")
        def circuit(x):
            qml.RX(x, wires=0)
            return qml.expval(qml.Z(0))

        gradients = [bellhop.qjit(bellhop.vmap(bellhop.grad(circuit)), seed=3)(Y) for _ in "ab"]
        np.testing.assert_array_equal(*gradients)
        np.testing.assert_allclose(gradients[0], -np.sin(Y), atol=0.08)


class TestFailures:
    def test_the_first_row_that_fails_is_named_and_later_calls_work(self):
        @bellhop.qjit
        @bellhop.vmap
        @qml.qnode(LIGHTNING)
        def prepared(bits):
            qml.BasisState(bits, wires=[0, 1])
            return qml.probs(wires=[0, 1])

        bits = np.zeros((400, 2))
        bits[[237, 399]] = 3
        good = np.zeros((400, 2))
        for _ in range(3):
            with pytest.raises(Exception, match="Row 237 of a batch of 400: .*expected 0 or 1"):
                prepared(bits)
            assert bellhop_runtime.live_sessions() == 0
            np.testing.assert_array_equal(prepared(good)[:, 0], np.ones(400))

    def test_exceptions_of_callbacks(self):
        @bellhop.pure_callback
        def angle(x) -> float:
            if x > 2:
                raise KeyError("too far")
            return x

        @bellhop.qjit
        @bellhop.vmap
        @qml.qnode(LIGHTNING)
        def circuit(x):
            qml.RX(0.2, wires=0)
            qml.RX(angle(x), wires=0)
            return qml.expval(qml.Z(0))

        with pytest.raises(KeyError, match="too far"):
            circuit(jnp.arange(4.0))
        np.testing.assert_allclose(circuit(jnp.arange(2.0)), np.cos(np.arange(2) + 0.2))


def test_threads_that_call_at_once():
    mapped = bellhop.qjit(bellhop.vmap(bellhop.grad(compiled(one_value)), in_axes=(0, None)))
    x = random(200, 2)
    expected = {y: np.asarray(mapped(x, y)) for y in (0.1, 0.9)}
    wrong = []

    def work(y):
        for _ in range(5):
            if not np.array_equal(mapped(x, y), expected[y]):
                wrong.append(y)

    run_at_once(*(partial(work, y) for y in expected))
    assert not wrong


def test_the_drawing_says_how_many():
    mapped = bellhop.qjit(bellhop.vmap(compiled(one_value)))
    mapped(X, Y)
    assert "5 times" in str(bellhop.draw(mapped)(X, Y))


def test_more_qubits_than_one_thread_takes():
    device = qml.device("lightning.qubit", wires=12)

    @qml.qnode(device)
    def circuit(x):
        for wire in range(12):
            qml.RY(x, wires=wire)
        return qml.expval(qml.prod(*(qml.Z(wire) for wire in range(12))))

    np.testing.assert_allclose(bellhop.qjit(bellhop.vmap(circuit))(Y), np.cos(Y) ** 12, atol=1e-9)
    gradient = bellhop.qjit(bellhop.vmap(bellhop.grad(circuit)))(Y)
    np.testing.assert_allclose(gradient, -12 * np.cos(Y) ** 11 * np.sin(Y), atol=1e-9)
