"""Variational circuits of 2 to 20 qubits and their adjoint gradients.

Three blocks of RX and RY on every wire with a ring of CNOT between them: eight
gates for each qubit, every rotation with its own angle, and the expectation
value of Z.  Catalyst drives lightning.qubit, whose circuits Bellhop runs in its own
engine, sharing a large state among threads; the JAX column is
PennyLane's default.qubit under `jax.jit`, differentiated by backpropagation.

Limit: Lightning's own time, approximated through its Python bindings, which
costs up to a microsecond for each gate; small circuits can be faster than that.

Those in single precision stand beside the same in double precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.case import LIMIT, PARAMETRIC, Case, Program, Target, qjit_builders, synchronous
from benchmarks.gates import Gate, Lightning, apply, parameters
from benchmarks.simulators import Model, simulator

SIZES = (2, 4, 6, 8, 10, 12, 16, 20)
BLOCKS = 3


def ring_gates(wires: int) -> list[Gate]:
    gates: list[Gate] = []
    slot = 0
    for block in range(BLOCKS):
        for wire in range(wires):
            gates += [Gate("RX", (wire,), slot), Gate("RY", (wire,), slot + 1)]
            slot += 2
        if block < BLOCKS - 1:
            gates += [Gate("CNOT", (wire, (wire + 1) % wires)) for wire in range(wires)]
    return gates


def ring_circuit(device: str, wires: int, **options: Any) -> Any:
    import pennylane as qml

    gates = ring_gates(wires)

    @qml.qnode(qml.device(device, wires=wires), **options)
    def circuit(angles: Any) -> Any:
        apply(gates, angles)
        return qml.expval(qml.PauliZ(0))

    return circuit


def ring_angles(wires: int) -> Any:
    import jax.numpy as jnp

    return jnp.asarray(parameters(ring_gates(wires)))


def _jax(wires: int, gradient: bool) -> Program:
    import jax

    circuit = ring_circuit("default.qubit", wires, interface="jax", diff_method="backprop")
    return synchronous(jax.jit(jax.grad(circuit) if gradient else circuit), ring_angles(wires))


def _qjit(api: Any, wires: int, gradient: bool, **options: Any) -> Program:
    circuit = ring_circuit("lightning.qubit", wires, diff_method="adjoint")

    def program(angles: Any) -> Any:
        return (api.grad(circuit) if gradient else circuit)(angles)

    return synchronous(api.qjit(program, **options), ring_angles(wires))


def _limit(wires: int, gradient: bool) -> Program:
    gates = ring_gates(wires)
    lightning = Lightning(wires, gates, parameters(gates), wire=0)
    run = lightning.gradient if gradient else lightning.expectation
    return Program(run, compiles=False)


def _simulator(name: str, wires: int, gradient: bool) -> Program:
    model = Model(wires, ring_gates(wires))
    of = simulator(name, model)
    if gradient:
        return Program(lambda: np.asarray(of.value_and_gradient(model.angles)[1]))
    return Program(lambda: np.asarray(of.value(model.angles)))


def _case(wires: int, gradient: bool) -> Case:
    return Case(
        name=f"{'gradient' if gradient else 'circuit'}-{wires}",
        title=f"{'adjoint gradient, ' if gradient else 'circuit, '}{wires} qubits",
        limit="lightning.qubit through its Python bindings",
        builders={
            "jax": lambda: _jax(wires, gradient),
            **qjit_builders(lambda api: _qjit(api, wires, gradient)),
            **{
                peer: lambda peer=peer: _simulator(peer, wires, gradient)  # type: ignore[misc]
                for peer in PARAMETRIC
            },
            LIMIT: lambda: _limit(wires, gradient),
        },
        targets=(Target(LIMIT, 1.5),) if gradient and wires >= 16 else (),
    )


def _in_precision(precision: str, wires: int, gradient: bool) -> Program:
    import bellhop

    return _qjit(bellhop, wires, gradient, precision=precision)


def _single_precision_case(wires: int, gradient: bool) -> Case:
    what = "adjoint gradient" if gradient else "circuit"
    return Case(
        name=f"single-precision-{'gradient' if gradient else 'circuit'}-{wires}",
        title=f"{what} in single precision, {wires} qubits",
        limit="the same in double precision; half of its bytes, so half of its time",
        builders={
            "bellhop": lambda: _in_precision("single", wires, gradient),
            LIMIT: lambda: _in_precision("double", wires, gradient),
        },
        unavailable=dict.fromkeys(("jax", "catalyst"), "the row compares precisions of Bellhop"),
        targets=(Target(LIMIT, 1.7),),
        tolerance=1e-5,
    )


CASES = [
    *(_case(wires, gradient) for gradient in (False, True) for wires in SIZES),
    *(
        _single_precision_case(wires, gradient)
        for gradient in (False, True)
        for wires in (18, 20, 22, 24)
    ),
]
