"""Loops whose condition is false at first."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop


def test_loops_that_never_run() -> None:
    calls: list[Any] = []

    @bellhop.qjit
    def program(x: Any, n: Any) -> Any:
        def idle(y: Any) -> Any:
            step = lambda i, y: (bellhop.io_callback(calls.append, None, y), 2 * y)[1]
            return jax.lax.fori_loop(0, jnp.int64(0), step, y)

        twice = jax.lax.cond(n > 0, lambda y: idle(idle(y)), lambda y: -y, x)
        return twice, idle(3.0 * x)

    assert program(1.5, 1) == (1.5, 4.5)
    assert program(1.5, -1) == (-1.5, 4.5)
    assert not calls


@pytest.mark.parametrize("count", [lambda _: jnp.int64(0), lambda x: 0 * x.astype(int)])
def test_a_circuit_with_outcomes_in_a_loop_that_never_runs(count: Callable[[Any], Any]) -> None:
    """XLA crashed when it removed such a loop."""

    @qml.qnode(qml.device("default.mixed", wires=2))
    def rotated(x: Any) -> Any:
        qml.RX(x, wires=0)
        return qml.expval(0.5 * qml.Z(1) + qml.Z(0))

    @qml.qnode(qml.device("default.mixed", wires=1))
    def with_callback(x: Any) -> Any:
        qml.RX(x, wires=0)
        wire = bellhop.io_callback(lambda i: i, jnp.int64(0), jnp.int64(0), ordered=True)
        return qml.expval(qml.Y(0)), qml.var(qml.Z(wires=wire % 1)), qml.expval(qml.Z(0))

    def program(x: Any, v: Any) -> Any:
        first = with_callback(rotated(x))[0]

        def body(i: Any, flag: Any) -> Any:
            constant = jax.lax.stop_gradient(v)
            found = jax.experimental.io_callback(lambda a: a, constant, constant)

            @qml.qnode(qml.device("default.qubit", wires=1))
            def measured(y: Any) -> Any:
                qml.RX(y, wires=0)
                bellhop.measure(0, postselect=0)
                jnp.where(~flag, v, found)
                return qml.probs(wires=[0])

            measured(first)
            return ~flag

        jax.lax.fori_loop(0, count(x), body, True)
        return jnp.float64(1.3)

    slopes = bellhop.qjit(bellhop.jacobian(program, argnums=[0, 1]))(0.3, np.array([0.4, 0.7]))
    assert [slope.tolist() for slope in slopes] == [0, [0, 0]]
