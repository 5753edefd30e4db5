"""Batches of circuits with loops and conditionals."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
from tests.frontend.circuits.circuit.batched_circuits import (
    X,
    Y,
    compiled,
    looped,
    one_value,
    reference,
    rows_of,
)

import bellhop


def test_loops_in_circuits(assert_close):
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
            # What is measured of the host between the iterations keeps them apart.
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


def test_wires_of_rows(assert_close):
    def circuit(i, x):
        qml.RY(x, wires=i)
        return qml.probs()

    wires = jnp.array([0, 2, 1])
    mapped = bellhop.qjit(bellhop.vmap(compiled(circuit)))
    expected = [reference(circuit)(int(i), x) for i, x in zip(wires, Y[:3], strict=True)]
    assert_close(mapped(wires, Y[:3]), np.stack(expected))
    assert rows_of(mapped) == [3]


def test_the_same_branch_in_all_rows(assert_close):
    def circuit(flip, x):
        bellhop.cond(flip, lambda: qml.RX(x, wires=0), lambda: qml.RY(2 * x, wires=0))()
        return qml.expval(qml.X(0)), qml.expval(qml.Y(0))

    mapped = bellhop.qjit(bellhop.vmap(compiled(circuit), in_axes=(None, 0)))
    zeros = np.zeros(5)
    assert_close(mapped(True, Y), (zeros, -np.sin(Y)))
    assert_close(mapped(False, Y), (np.sin(2 * Y), zeros))
    assert rows_of(mapped) == [5]


def test_random_keys_decide_other_ways(assert_close):
    """Keys are two words, as the handle of a state is."""

    def circuit(key, x):
        is_head = jax.random.bits(key) % 2 == 0
        bellhop.cond(is_head, lambda: qml.RX(x, wires=0), lambda: qml.RY(2 * x, wires=0))()
        return qml.expval(qml.X(0))

    keys = jax.vmap(jax.random.PRNGKey)(jnp.arange(5))
    heads = np.array([jax.random.bits(key) % 2 == 0 for key in keys])
    mapped = bellhop.qjit(bellhop.vmap(compiled(circuit)))
    assert 0 < heads.sum() < 5
    assert_close(mapped(keys, Y), np.where(heads, 0, np.sin(2 * Y)))


def test_rows_that_go_other_ways_run_one_after_another(assert_close):
    def circuit(x):
        bellhop.cond(x > 0, lambda: qml.RX(x, wires=0), lambda: qml.RY(2 * x, wires=0))()
        return qml.expval(qml.X(0)), qml.expval(qml.Y(0))

    mapped = bellhop.qjit(bellhop.vmap(compiled(circuit)))
    expected = np.where(Y > 0, 0, np.sin(2 * Y)), np.where(Y > 0, -np.sin(Y), 0)
    assert_close(mapped(Y), expected)
    assert rows_of(mapped) == []
    gradient = bellhop.qjit(bellhop.vmap(bellhop.grad(lambda x: sum(compiled(circuit)(x)))))
    assert_close(gradient(Y), np.where(Y > 0, -np.cos(Y), 2 * np.cos(2 * Y)))


def test_other_numbers_of_iterations(assert_close):
    def circuit(n, x):
        bellhop.for_loop(0, n, 1)(lambda i: qml.RX(x, wires=0))()
        return qml.expval(qml.Z(0))

    n, x = jnp.array([0, 3, 1]), jnp.array([0.1, 0.2, 0.3])
    assert_close(bellhop.qjit(bellhop.vmap(compiled(circuit)))(n, x), np.cos(n * x))


def test_measurements_in_the_middle(assert_close):
    def circuit(x):
        qml.RX(x, wires=0)
        outcome = bellhop.measure(0)
        bellhop.cond(outcome, lambda: qml.RY(x, wires=1))()
        return qml.expval(qml.Z(1))

    expected = np.cos(Y / 2) ** 2 + np.sin(Y / 2) ** 2 * np.cos(Y)
    assert_close(bellhop.qjit(bellhop.vmap(compiled(circuit)))(Y), expected)


def test_batches_in_loops_and_branches(assert_close):
    mapped = bellhop.vmap(compiled(one_value), in_axes=(0, None))

    @bellhop.qjit
    def program(x, y):
        @bellhop.for_loop(0, 3, 1)
        def body(i, total):
            positive = bellhop.cond(i > 0, lambda: mapped(x, y[i]), lambda: jnp.zeros(5))()
            return total + positive

        return body(jnp.zeros(5))

    expected = sum(looped(reference(one_value), (0, None), 0, (X, y)) for y in Y[1:3])
    assert_close(program(X, Y), expected)


def test_effects_in_loops_of_rows(assert_close):
    seen = []
    note = bellhop.debug.callback(lambda value: seen.append(float(value)))

    def noted(value_of):
        def circuit(x):
            @bellhop.for_loop(0, 3, 1)
            def layer(i, angle):
                note(value_of(i, angle))
                qml.RX(angle, wires=0)
                return angle / 2

            layer(x)
            return qml.expval(qml.Z(0))

        seen.clear()
        assert_close(bellhop.qjit(bellhop.vmap(compiled(circuit)))(Y), np.cos(1.75 * Y))
        return seen.copy()

    # What no row decides happens once for all of them, as outside of loops.
    assert noted(lambda i, _: i) == [0, 1, 2]
    assert_close(noted(lambda _, angle: angle), [y / 2**i for y in Y for i in range(3)])


def test_effects_in_loops_whose_length_is_of_the_row(assert_close):
    seen = []
    note = bellhop.debug.callback(lambda value: seen.append(float(value)))

    def circuit(n):
        @bellhop.while_loop(lambda i: i < n)
        def layer(i):
            note(0.5)
            qml.RX(0.3, wires=0)
            return i + 1

        layer(0)
        return qml.expval(qml.Z(0))

    lengths = np.array([2, 0, 1])
    assert_close(bellhop.qjit(bellhop.vmap(compiled(circuit)))(lengths), np.cos(0.3 * lengths))
    assert seen == [0.5] * 3
