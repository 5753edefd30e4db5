"""Many gates on 4 qubits: 2000 in straight-line code, 20000 in a compiled loop.

The first asks whether compilation stays bearable when a program is unrolled, the
second what one gate costs.  Limit: Lightning's own time, approximated through
its Python bindings.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.case import LIMIT, Case, Program, qjit_builders, synchronous
from benchmarks.gates import Gate, Lightning, apply, parameters

WIRES = 4
PAIRS = 1000
ITERATIONS = 10_000
ANGLE = 0.1


def _unrolled_gates() -> list[Gate]:
    gates: list[Gate] = []
    for index in range(PAIRS):
        wire = index % WIRES
        gates += [Gate("RX", (wire,), index), Gate("CNOT", (wire, (wire + 1) % WIRES))]
    return gates


def _unrolled_qnode(device: str, **options: Any) -> Any:
    import pennylane as qml

    gates = _unrolled_gates()

    @qml.qnode(qml.device(device, wires=WIRES), **options)
    def circuit(angles: Any) -> Any:
        apply(gates, angles)
        return qml.expval(qml.PauliZ(0))

    return circuit


def _unrolled_qjit(api: Any) -> Program:
    import jax.numpy as jnp

    angles = jnp.asarray(parameters(_unrolled_gates()))
    return synchronous(api.qjit(_unrolled_qnode("lightning.qubit")), angles)


def _unrolled_jax() -> Program:
    import jax

    circuit = _unrolled_qnode("default.qubit", interface="jax", diff_method="backprop")
    return synchronous(jax.jit(circuit), jax.numpy.asarray(parameters(_unrolled_gates())))


def _unrolled_limit() -> Program:
    gates = _unrolled_gates()
    return Program(Lightning(WIRES, gates, parameters(gates), wire=0).expectation, compiles=False)


def _loop_qjit(api: Any) -> Program:
    import jax.numpy as jnp
    import pennylane as qml

    @qml.qnode(qml.device("lightning.qubit", wires=WIRES))
    def circuit(angle: Any) -> Any:
        def body(index: Any) -> None:
            # An angle that depends on the index keeps the gates from being merged.
            qml.RX(angle * index, wires=0)
            qml.CNOT(wires=(0, 1))

        api.for_loop(0, ITERATIONS, 1)(body)()
        return qml.expval(qml.PauliZ(1))

    return synchronous(api.qjit(circuit), jnp.asarray(ANGLE))


def _loop_limit() -> Program:
    gates: list[Gate] = []
    for index in range(ITERATIONS):
        gates += [Gate("RX", (0,), index), Gate("CNOT", (0, 1))]
    angles = ANGLE * np.arange(ITERATIONS)
    return Program(Lightning(WIRES, gates, angles, wire=1).expectation, compiles=False)


CASES = [
    Case(
        name="gates-unrolled",
        title=f"{2 * PAIRS} gates in straight-line code",
        limit="lightning.qubit through its Python bindings",
        builders={
            "jax": _unrolled_jax,
            **qjit_builders(_unrolled_qjit),
            LIMIT: _unrolled_limit,
        },
        items=2 * PAIRS,
        unit="gate",
    ),
    Case(
        name="gates-loop",
        title=f"{2 * ITERATIONS} gates in a compiled loop",
        limit="lightning.qubit through its Python bindings",
        builders={**qjit_builders(_loop_qjit), LIMIT: _loop_limit},
        unavailable={"jax": "default.qubit under jax.jit unrolls loops of gates"},
        items=2 * ITERATIONS,
        unit="gate",
    ),
]
