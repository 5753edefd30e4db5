"""Random outcomes: seeds, threads, and how often a circuit is made."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop


def outcomes(n: int) -> Callable[[Any], Any]:
    """A circuit that is one random run and returns its outcomes."""

    def circuit(x: Any) -> Any:
        for wire in range(n):
            qml.RY(x, wires=wire)
        return [bellhop.measure(wire) for wire in range(n)]

    return circuit


@pytest.fixture(scope="module")
def coins() -> qml.QNode:
    return qml.QNode(outcomes(8), qml.device("lightning.qubit", wires=8))


HALF = np.pi / 2


def test_each_call_of_a_seeded_program_is_the_same(coins: Any) -> None:
    """What a program draws again and again in a call differs, and is the same in the next."""

    def runs(x: Any) -> Any:
        return jax.lax.map(lambda _: jnp.stack(coins(x)), jnp.arange(4)), jnp.stack(coins(x))

    one, other, third = (bellhop.qjit(runs, seed=seed) for seed in (11, 11, 12))
    first = np.vstack(one(HALF))
    assert len({tuple(run) for run in first}) > 1
    for _ in range(3):
        np.testing.assert_array_equal(np.vstack(one(HALF)), first)
        np.testing.assert_array_equal(np.vstack(other(HALF)), first)
    assert not np.array_equal(np.vstack(third(HALF)), first)


def test_without_a_seed_programs_differ(coins: Any) -> None:
    runs = [[np.array(bellhop.qjit(coins)(HALF)) for _ in range(1)] for _ in range(3)]
    assert len({np.array(run).tobytes() for run in runs}) > 1


def test_a_random_circuit_is_made_as_often_as_it_stands_there(coins: Any) -> None:
    """Nobody merges equal circuits, takes one out of a loop, or drops its iterations."""

    @bellhop.qjit(seed=3)
    def program(y: Any) -> Any:
        body = lambda total, _: (total * 1.0, (total * 0, jnp.stack(coins(HALF))))
        in_scan = jax.lax.scan(body, y, None, length=4)[1][1]
        in_vmap = jax.vmap(lambda x: jnp.stack(coins(x)))(jnp.full(4, HALF))
        equal = [jnp.stack(coins(HALF)) for _ in range(4)]
        jitted = jax.jit(lambda: jnp.stack(coins(HALF)))
        return in_scan, in_vmap, jnp.stack(equal), jnp.stack([jitted() for _ in range(4)])

    for runs in program(1.0):
        assert len({tuple(run) for run in np.array(runs).astype(int)}) > 1

    @bellhop.qjit
    @jax.grad
    def derivative(y: Any) -> Any:
        body = lambda total, _: (total * 1.0, total * jnp.stack(coins(HALF)).astype(float))
        return jnp.sum(jax.lax.scan(body, y, None, length=4)[1] ** 2)

    # Of the sum of the squares of 32 coins: twice as many as came up, and not 4 equal rows.
    assert {float(derivative(1.0)) % 8 for _ in range(8)} != {0.0}


def test_two_circuits_keep_their_own_outcomes(lightning: Any) -> None:
    def circuit(x: Any) -> Any:
        qml.RY(x, wires=0)
        m = bellhop.measure(0)
        return m, qml.expval(qml.Z(0))

    node = lightning(circuit, wires=1)

    @bellhop.qjit
    def program(x: Any) -> Any:
        return node(x), node(x + 0.1), node(np.pi), node(0.0)

    for _ in range(5):
        for m, z in program(1.5):
            assert z == 1 - 2 * m
        *_, (one, _), (zero, _) = program(1.5)
        assert one
        assert not zero


def test_calls_of_a_seeded_program_in_threads_and_in_calls_are_the_same(coins: Any) -> None:
    from concurrent.futures import ThreadPoolExecutor

    program = bellhop.qjit(lambda x: (jnp.stack(coins(x)), jnp.stack(coins(x))), seed=4)
    first = np.array(program(HALF))
    with ThreadPoolExecutor(4) as pool:
        for drawn in pool.map(lambda _: np.array(program(HALF)), range(20)):
            np.testing.assert_array_equal(drawn, first)

    @bellhop.qjit(seed=4)
    def outer(n: Any) -> Any:
        before = jnp.stack(coins(HALF))
        inner = bellhop.io_callback(lambda n: 0 if n == 0 else outer(n - 1)[0].sum(), int)(n)
        return before, jnp.stack(coins(HALF)) + 0 * inner

    alone, nested = outer(0), outer(2)
    np.testing.assert_array_equal(alone, nested)


def test_a_seeded_device_draws_a_sequence_in_threads() -> None:
    from concurrent.futures import ThreadPoolExecutor

    def program() -> Any:
        return bellhop.qjit(qml.QNode(outcomes(8), qml.device("lightning.qubit", 8, seed=4)))

    expected, again = program(), program()
    sequence = {np.array(expected(HALF)).tobytes() for _ in range(20)}
    assert len(sequence) > 1
    with ThreadPoolExecutor(4) as pool:
        drawn = set(pool.map(lambda _: np.array(again(HALF)).tobytes(), range(20)))
    assert drawn == sequence


def test_under_plain_jit(coins: Any) -> None:
    runs = jax.jit(lambda x: [jnp.stack(bellhop.qjit(coins)(x)) for _ in range(4)])(HALF)
    assert len({np.array(run).tobytes() for run in runs}) > 1
