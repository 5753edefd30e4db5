"""What a circuit that fails when it runs raises, wherever its program is."""

from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml
import pytest

import bellhop


def flip(wire: Any) -> Any:
    qml.X(wire)
    return qml.expval(qml.Z(0))


CIRCUIT = bellhop.qjit(qml.QNode(flip, qml.device("lightning.qubit", wires=2)))
PROGRAMS = {
    "qjit": CIRCUIT,
    "plain jit": jax.jit(lambda wire: 2 * CIRCUIT(wire)),
    "region": bellhop.qjit(lambda wire: bellhop.accelerate(CIRCUIT)(wire)),
    "eager": jax.vmap(CIRCUIT),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_error_of_a_circuit(name: str) -> None:
    """It is the same on the first call as on cached ones, and harms none after it."""
    program = PROGRAMS[name]
    wrap = jnp.atleast_1d if name == "eager" else lambda wire: wire
    message = r"^the QNode 'flip' \(.*test_circuit_failures.py:\d+\): .*'PauliX' on wires \[{}\] "
    for wire in (2, 3, -4):
        with pytest.raises(bellhop.CircuitError, match=message.format(wire)):
            jax.block_until_ready(program(wrap(wire)))
        program(wrap(1))
