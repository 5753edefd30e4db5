"""Circuits that are a part of the program: ``default.qubit`` in a region, and its gradient.

Layers of RX and RZ and a ring of CNOT on 12 qubits, where the state is small, on 16, where it
leaves the caches of a core, and on 20.  Limit: each layer reads and writes the state once, for each
of the states that a gradient goes through.  JAX's column is the plain way: a state with an axis for
each qubit, a tensordot for each gate, a scan over the layers so that it compiles in seconds, and
``jax.grad``, which keeps the states: 355 of them on 16 qubits, so there are fewer layers on 20.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.case import LIMIT, Case, Program, Target, synchronous

LAYERS = {12: 10, 16: 10, 20: 3}
# Forwards, and backwards the state and its cotangent.
SWEEPS = {"value": 1, "gradient": 3}


def _angles(qubits: int) -> Any:
    return np.random.default_rng(0).normal(size=(LAYERS[qubits], qubits, 2))


def _circuit(qubits: int) -> Any:
    import pennylane as qml

    @qml.qnode(qml.device("default.qubit", wires=qubits))
    def circuit(angles: Any) -> Any:
        for layer in range(LAYERS[qubits]):
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
    import jax.numpy as jnp

    def applied(matrix: Any, state: Any, *wires: int) -> Any:
        k = len(wires)
        rows, columns = list(range(k)), list(range(k, 2 * k))
        tensor = jnp.reshape(matrix, (2,) * (2 * k))
        return jnp.moveaxis(jnp.tensordot(tensor, state, (columns, wires)), rows, wires)

    def layer(state: Any, angles: Any) -> tuple[Any, None]:
        cos, sin = jnp.cos(angles / 2), jnp.sin(angles / 2)
        for wire in range(qubits):
            (c, d), (s, t) = cos[wire], -1j * sin[wire]
            state = applied(jnp.array([[c, s], [s, c]]), state, wire)
            state = applied(jnp.array([[d + t, 0], [0, d - t]]), state, wire)
        for wire in range(qubits):
            cnot = np.eye(4)[[0, 1, 3, 2]]
            state = applied(cnot, state, wire, (wire + 1) % qubits)
        return state, None

    def circuit(angles: Any) -> Any:
        zeros = jnp.zeros((2,) * qubits, complex).at[(0,) * qubits].set(1)
        state, _ = jax.lax.scan(layer, zeros, angles)
        zero, one = jnp.sum(jnp.abs(state.reshape(2, -1)) ** 2, axis=1)
        return zero - one

    program = jax.jit(jax.grad(circuit) if what == "gradient" else circuit)
    return synchronous(program, jnp.asarray(_angles(qubits)))


def _limit(qubits: int, what: str) -> Program:
    import jax

    state = jax.numpy.ones((2, 2**qubits))
    passes = LAYERS[qubits] * SWEEPS[what]
    copy = jax.jit(lambda state: jax.lax.fori_loop(0, passes, lambda i, s: s * 1.0000001, state))
    run = synchronous(copy, state).run
    return Program(run, comparable=False, compiles=False)


def _case(qubits: int, what: str) -> Case:
    builders = {"bellhop": _bellhop, "jax": _jax, LIMIT: _limit}
    return Case(
        name=f"region-circuit-{qubits}-{what}",
        title=f"circuit in a region, {qubits} qubits, {what}",
        limit="reading and writing the state once a layer and sweep",
        builders={
            name: lambda build=build: build(qubits, what)  # type: ignore[misc]
            for name, build in builders.items()
        },
        unavailable={"catalyst": "it has no default.qubit in accelerate"},
        devices=2,
        targets=(Target("jax", 3),),
    )


CASES = [_case(qubits, what) for qubits in LAYERS for what in SWEEPS]
