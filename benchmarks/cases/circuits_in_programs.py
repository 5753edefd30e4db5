"""Circuits that are a part of the program: ``default.qubit`` in a region, and its gradient.

Three layers of RX and RZ and a ring of CNOT on 12 qubits, where the state is small, and on 16,
where it leaves the caches of a core.  Limit: each layer reads and writes the state once, for each
of the states that a gradient goes through.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.case import LIMIT, Case, Program, synchronous

LAYERS = 3
# Forwards, and backwards the state and its cotangent.
SWEEPS = {"value": 1, "gradient": 3}


def _angles(qubits: int) -> Any:
    return np.random.default_rng(0).normal(size=(LAYERS, qubits, 2))


def _circuit(qubits: int) -> Any:
    import pennylane as qml

    @qml.qnode(qml.device("default.qubit", wires=qubits))
    def circuit(angles: Any) -> Any:
        for layer in range(LAYERS):
            for wire in range(qubits):
                qml.RX(angles[layer, wire, 0], wire)
                qml.RZ(angles[layer, wire, 1], wire)
            for wire in range(qubits):
                qml.CNOT([wire, (wire + 1) % qubits])
        return qml.expval(qml.Z(0))

    return circuit


def _bellhop(qubits: int, what: str) -> Program:
    import jax

    import bellhop

    region = bellhop.accelerate(_circuit(qubits), dev="cpu:1")
    program = bellhop.qjit(jax.grad(region) if what == "gradient" else region)
    return synchronous(program, jax.numpy.asarray(_angles(qubits)))


def _jax(qubits: int, what: str) -> Program:
    import jax

    circuit = _circuit(qubits)
    program = jax.jit(jax.grad(circuit) if what == "gradient" else circuit)
    return synchronous(program, jax.numpy.asarray(_angles(qubits)))


def _limit(qubits: int, what: str) -> Program:
    import jax

    state = jax.numpy.ones((2, 2**qubits))
    passes = LAYERS * SWEEPS[what]
    copy = jax.jit(lambda state: jax.lax.fori_loop(0, passes, lambda i, s: s * 1.0000001, state))
    run = synchronous(copy, state).run
    return Program(run, comparable=False, compiles=False)


def _case(qubits: int, what: str) -> Case:
    builders = {"bellhop": _bellhop, LIMIT: _limit}
    if qubits == 12:
        builders["jax"] = _jax
    return Case(
        name=f"region-circuit-{qubits}-{what}",
        title=f"circuit in a region, {qubits} qubits, {what}",
        limit="reading and writing the state once a layer and sweep",
        builders={
            name: lambda build=build: build(qubits, what)  # type: ignore[misc]
            for name, build in builders.items()
        },
        unavailable={
            "catalyst": "it has no default.qubit in accelerate",
            **({} if qubits == 12 else {"jax": "it compiles for minutes"}),
        },
        devices=2,
    )


CASES = [_case(qubits, what) for qubits in (12, 16) for what in SWEEPS]
