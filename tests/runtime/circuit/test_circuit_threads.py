"""Circuits from many threads, and what repeated ones leave behind."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.memory import needs_private_bytes, private_bytes
from tests.patience import run_at_once
from tests.runtime.circuit_calls import (
    HERMITIAN,
    Gate,
    Param,
    begin,
    end,
    gates,
    measure,
    to_measurements,
)


def test_sixteen_threads():
    processes = [qml.expval(qml.PauliZ(0)), qml.expval(qml.X(1))]
    run = [Gate("RX", [0], [Param(0)]), Gate("CNOT", [0, 1]), Gate("RY", [1], [Param(1)])]
    wanted = to_measurements(processes, 2)

    @jax.jit
    def program(params):
        state = gates(begin(2, record=2, engine=False), run, params)
        state, *values, derivative = measure(state, wanted, jacobian=(2, 2))
        end(state)
        return jnp.stack(values), derivative

    failing = jax.jit(lambda x: gates(begin(2), [Gate("RX", [3], [Param(0)])], x))
    program(jnp.zeros(2))
    wrong: list[Any] = []

    def work(seed):
        with jax.enable_x64(True):
            rng = np.random.default_rng(seed)
            for i in range(20):
                x, y = rng.uniform(-3, 3, 2)
                if i % 5 == seed % 5:
                    with pytest.raises(RuntimeError):
                        jax.block_until_ready(failing(jnp.array([x])))
                values, derivative = program(jnp.array([x, y]))
                expected = [np.cos(x), np.cos(x) * np.sin(y)]
                slope = [[-np.sin(x), 0], [-np.sin(x) * np.sin(y), np.cos(x) * np.cos(y)]]
                if not (np.allclose(values, expected) and np.allclose(derivative, slope)):
                    wrong.append((x, y, values, derivative))

    run_at_once(*(partial(work, seed) for seed in range(16)))
    assert not wrong


@needs_private_bytes
def test_repeated_calls_leak_nothing():
    wanted = to_measurements([qml.expval(qml.Hermitian(HERMITIAN, [0, 1])), qml.probs()], 6)

    @jax.jit
    def many(x):
        def body(i, total):
            state = begin(6, total, record=2, engine=False)
            state = gates(state, [Gate("RX", [0], [Param(0)])], total[None])
            state, value, _, derivative = measure(state, wanted, jacobian=(1, 1))
            end(state)
            return total + value + derivative[0, 0]

        return jax.lax.fori_loop(0, 2000, body, x)

    for _ in range(3):
        many(1.0).block_until_ready()
    before = private_bytes()
    for _ in range(5):
        many(1.0).block_until_ready()
    # A kilobyte of each circuit would be 10 MB.
    assert private_bytes() - before < 4 << 20
