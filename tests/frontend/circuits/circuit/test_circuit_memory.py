"""Circuits that run again and again take no more memory."""

from typing import Any

import jax.numpy as jnp
import pennylane as qml
import pytest
from tests.memory import needs_private_bytes, private_bytes

import bellhop

MEGABYTE = 1 << 20


@needs_private_bytes
@pytest.mark.parametrize("wires", [12, 16])
@pytest.mark.parametrize("gradient", [False, True])
def test_states_are_given_back(wires: int, gradient: bool) -> None:
    """A plugin keeps each observable, and what is cut from a state's place is lost to states."""

    @qml.qnode(qml.device("lightning.qubit", wires=wires))
    def circuit(x: Any) -> Any:
        qml.RX(x, wires=0)
        return qml.expval(qml.PauliZ(0) @ qml.PauliY(1)), qml.expval(qml.PauliX(1))

    def first(x: Any) -> Any:
        return circuit(x)[0]

    compiled = bellhop.qjit(bellhop.grad(first) if gradient else first)
    x = jnp.asarray(0.3)
    state = 16 << wires
    # As many states as the pool of devices may hold, and as much again.
    for _ in range(8 * MEGABYTE // state + 10):
        compiled(x)
    before = private_bytes()
    calls = 32 * MEGABYTE // state
    for _ in range(calls):
        compiled(x)
    assert private_bytes() - before < 0.3 * calls * state
