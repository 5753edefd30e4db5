"""Batches: circuits that vmap makes one call of the runtime, for all rows.

Values and derivatives are held against a loop of PennyLane's ``default.qubit``, not compiled, and
its own backpropagation.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.patience import run_at_once

import bellhop
import bellhop_runtime
from bellhop.circuits import batch as batch_module

LIGHTNING = qml.device("lightning.qubit", wires=3)
DEFAULT = qml.device("default.qubit", wires=3)


def gates(x, y):
    qml.RX(x[0], wires=0)
    qml.CRY(x[1] * y, wires=[0, 1])
    qml.RZ(jnp.sin(y), wires=1)
    qml.CNOT(wires=[1, 2])
    qml.Rot(y, x[0], x[1], wires=2)


def several(x, y):
    gates(x, y)
    hamiltonian = qml.Hamiltonian([0.3, -0.7], [qml.X(0) @ qml.Z(2), qml.Y(1)])
    return qml.expval(hamiltonian), qml.probs(wires=[2, 0]), qml.expval(qml.Z(1))


def weighted(x, y):
    """Observables whose coefficients and matrix are other ones in each row."""
    gates(x, y)
    matrix = jnp.array([[y, x[0]], [x[0], -y]])
    hamiltonian = qml.Hamiltonian(x, [qml.X(0), qml.Z(1) @ qml.Y(2)])
    return qml.expval(hamiltonian), qml.expval(qml.Hermitian(matrix, wires=1))


def others(x, y):
    gates(x, y)
    return qml.var(qml.X(1)), qml.state(), qml.probs(), qml.var(qml.Z(0) @ qml.Y(2))


def compiled(function, **options):
    return qml.QNode(function, LIGHTNING, **options)


def reference(function):
    return qml.QNode(function, DEFAULT, diff_method="backprop")


def derived(derivative, function, **options):
    """Return a derivative of the reference; it alone is compiled, by JAX, to be fast."""
    return jax.jit(derivative(reference(function), **options))


def looped(function, in_axes, out_axes, args):
    """Stack what a function returns for each row."""
    sizes = [np.shape(a)[axis] for a, axis in zip(args, in_axes, strict=True) if axis is not None]
    rows = [
        function(
            *(
                a if axis is None else jnp.take(a, row, axis)
                for a, axis in zip(args, in_axes, strict=True)
            )
        )
        for row in range(sizes[0])
    ]
    return jax.tree.map(lambda *leaves: np.stack(leaves, out_axes), *rows)


def random(*shape):
    return jnp.asarray(np.random.default_rng(7).uniform(-3, 3, shape))


X, Y = random(5, 2), random(5)


def rows_of(function: Any) -> list[int]:
    """Return the rows of each batch in a compiled program."""
    parts = function.mlir_opt.split("rows = ")[1:]
    return [int(part.split(" ")[0]) for part in parts if not part.startswith("0 ")]


@pytest.mark.parametrize("function", [several, weighted, others])
def test_values(function, assert_close):
    mapped = bellhop.qjit(bellhop.vmap(compiled(function)))
    assert_close(mapped(X, Y), looped(reference(function), (0, 0), 0, (X, Y)))
    assert rows_of(mapped) == [5]
    assert "stablehlo.while" not in mapped.mlir_opt


AXES = st.tuples(*[st.sampled_from([None, 0, 1, -1]), st.sampled_from([None, 0])]).filter(
    lambda axes: axes != (None, None)
)


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


def one_value(x, y):
    gates(x, y)
    return qml.expval(qml.X(0) @ qml.Z(2) + 0.5 * qml.Y(1))


def test_gradient_of_each_row(assert_close):
    mapped = bellhop.qjit(bellhop.vmap(bellhop.grad(compiled(one_value), argnums=(0, 1))))
    expected = looped(derived(jax.grad, one_value, argnums=(0, 1)), (0, 0), 0, (X, Y))
    assert_close(mapped(X, Y), expected)
    # Values and derivatives come of one run of each row.
    assert rows_of(mapped) == [5]
    assert "quantum.jacobian" not in mapped.mlir_opt


def test_gradient_of_a_sum_over_rows(assert_close):
    def loss(function):
        return lambda x, y: jnp.sum(jax.vmap(function, in_axes=(0, None))(x, y) ** 2)

    f = bellhop.qjit(bellhop.grad(loss(compiled(one_value)), argnums=(0, 1)))

    def expected_loss(x, y):
        return sum(reference(one_value)(row, y) ** 2 for row in x)

    assert_close(f(X, Y[0]), jax.jit(jax.grad(expected_loss, argnums=(0, 1)))(X, Y[0]))
    assert rows_of(f) == [5]


def test_derivatives_of_all_kinds(assert_close):
    for derivative, function in ((jax.jacobian, several), (jax.hessian, one_value)):
        mapped = bellhop.qjit(jax.vmap(derivative(compiled(function)), in_axes=(0, None)))
        expected = looped(derived(derivative, function), (0, None), 0, (X[:2], Y[0]))
        assert_close(mapped(X[:2], Y[0]), expected)


@pytest.mark.parametrize("method", ["parameter-shift", "finite-diff", "adjoint"])
def test_gradients_of_each_method(method):
    mapped = bellhop.qjit(bellhop.vmap(bellhop.grad(compiled(one_value, diff_method=method))))
    expected = looped(derived(jax.grad, one_value), (0, 0), 0, (X, Y))
    tolerance = 1e-5 if method == "finite-diff" else 1e-9
    np.testing.assert_allclose(mapped(X, Y), expected, rtol=0, atol=tolerance)


def test_gradient_by_coefficients_and_matrices_of_rows(assert_close):
    def total(function):
        return jax.grad(lambda x, y: sum(function(x, y)), argnums=(0, 1))

    mapped = bellhop.qjit(jax.vmap(total(compiled(weighted))))
    expected = looped(derived(total, weighted), (0, 0), 0, (X, Y))
    assert_close(mapped(X, Y), expected)


def test_batches_of_batches(assert_close):
    x, y = random(3, 4, 2), random(4)
    inner = {"in_axes": (0, None)}
    mapped = bellhop.qjit(bellhop.vmap(bellhop.vmap(compiled(several), **inner), in_axes=(1, 0)))
    rows = [looped(reference(several), (0, None), 0, (x[:, i], y[i])) for i in range(4)]
    assert_close(mapped(x, y), jax.tree.map(lambda *leaves: np.stack(leaves), *rows))
    assert rows_of(mapped) == [12]


def test_gradient_of_batches_of_batches(assert_close):
    x, y = random(2, 2), random(2)

    def loss(function):
        one_way = jax.vmap(function, in_axes=(None, 0))
        return lambda x, y: jnp.prod(jax.vmap(one_way, in_axes=(0, None), out_axes=1)(x, y))

    @jax.jit
    def expected(x, y):
        rows = [[reference(one_value)(x[i], y[j]) for i in range(2)] for j in range(2)]
        return jnp.prod(jnp.array(rows))

    f = bellhop.qjit(bellhop.grad(loss(compiled(one_value)), argnums=(0, 1)))
    assert_close(f(x, y), jax.grad(expected, argnums=(0, 1))(x, y))


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


class TestControlFlow:
    def test_loops_in_circuits(self, assert_close):
        seen = []

        @bellhop.pure_callback
        def halved(x) -> float:
            seen.append(float(x))
            return x / 2

        def looped_gates(x, for_loop):
            @for_loop(0, 3, 1)
            def layer(i, angle):
                qml.RX(angle, wires=i)
                qml.CNOT([i, (i + 1) % 3])
                qml.RY(0.3 * angle, wires=(i + 1) % 3)
                return angle / 2

            layer(x)
            return qml.expval(qml.Z(2))

        def called(x):
            @bellhop.for_loop(0, 3, 1)
            def layer(i, angle):
                qml.RX(angle, wires=i)
                # What is measured of the host between the turns keeps them apart.
                angle = halved(angle)
                qml.CNOT([i, (i + 1) % 3])
                qml.RY(0.6 * angle, wires=(i + 1) % 3)
                return angle

            layer(x)
            return qml.expval(qml.Z(2))

        expected = looped(reference(lambda x: looped_gates(x, qml.for_loop)), (0,), 0, (Y,))
        mapped = bellhop.qjit(bellhop.vmap(compiled(lambda x: looped_gates(x, bellhop.for_loop))))
        assert_close(mapped(Y), expected)
        assert rows_of(mapped) == [5]
        assert_close(bellhop.qjit(bellhop.vmap(compiled(called)))(Y), expected)
        assert len(seen) == 15

    def test_wires_of_rows(self, assert_close):
        def circuit(i, x):
            qml.RY(x, wires=i)
            return qml.probs()

        wires = jnp.array([0, 2, 1])
        mapped = bellhop.qjit(bellhop.vmap(compiled(circuit)))
        expected = [reference(circuit)(int(i), x) for i, x in zip(wires, Y[:3], strict=True)]
        assert_close(mapped(wires, Y[:3]), np.stack(expected))
        assert rows_of(mapped) == [3]

    def test_the_same_branch_in_all_rows(self, assert_close):
        def circuit(flip, x):
            bellhop.cond(flip, lambda: qml.RX(x, wires=0), lambda: qml.RY(2 * x, wires=0))()
            return qml.expval(qml.X(0)), qml.expval(qml.Y(0))

        mapped = bellhop.qjit(bellhop.vmap(compiled(circuit), in_axes=(None, 0)))
        zeros = np.zeros(5)
        assert_close(mapped(True, Y), (zeros, -np.sin(Y)))
        assert_close(mapped(False, Y), (np.sin(2 * Y), zeros))
        assert rows_of(mapped) == [5]

    def test_rows_that_go_other_ways_run_one_after_another(self, assert_close):
        def circuit(x):
            bellhop.cond(x > 0, lambda: qml.RX(x, wires=0), lambda: qml.RY(2 * x, wires=0))()
            return qml.expval(qml.X(0)), qml.expval(qml.Y(0))

        mapped = bellhop.qjit(bellhop.vmap(compiled(circuit)))
        expected = np.where(Y > 0, 0, np.sin(2 * Y)), np.where(Y > 0, -np.sin(Y), 0)
        assert_close(mapped(Y), expected)
        assert rows_of(mapped) == []
        gradient = bellhop.qjit(bellhop.vmap(bellhop.grad(lambda x: sum(compiled(circuit)(x)))))
        assert_close(gradient(Y), np.where(Y > 0, -np.cos(Y), 2 * np.cos(2 * Y)))

    def test_other_numbers_of_turns(self, assert_close):
        def circuit(n, x):
            bellhop.for_loop(0, n, 1)(lambda i: qml.RX(x, wires=0))()
            return qml.expval(qml.Z(0))

        n, x = jnp.array([0, 3, 1]), jnp.array([0.1, 0.2, 0.3])
        assert_close(bellhop.qjit(bellhop.vmap(compiled(circuit)))(n, x), np.cos(n * x))

    def test_measurements_in_the_middle(self, assert_close):
        def circuit(x):
            qml.RX(x, wires=0)
            outcome = bellhop.measure(0)
            bellhop.cond(outcome, lambda: qml.RY(x, wires=1))()
            return qml.expval(qml.Z(1))

        expected = np.cos(Y / 2) ** 2 + np.sin(Y / 2) ** 2 * np.cos(Y)
        assert_close(bellhop.qjit(bellhop.vmap(compiled(circuit)))(Y), expected)

    def test_batches_in_loops_and_branches(self, assert_close):
        mapped = bellhop.vmap(compiled(one_value), in_axes=(0, None))

        @bellhop.qjit
        def program(x, y):
            @bellhop.for_loop(0, 3, 1)
            def turn(i, total):
                positive = bellhop.cond(i > 0, lambda: mapped(x, y[i]), lambda: jnp.zeros(5))()
                return total + positive

            return turn(jnp.zeros(5))

        expected = sum(looped(reference(one_value), (0, None), 0, (X, y)) for y in Y[1:3])
        assert_close(program(X, Y), expected)


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
    monkeypatch.setattr(batch_module, "_NUMBERS_IN_ONE_CALL", 16)
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
