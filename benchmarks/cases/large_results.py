"""The whole state of a circuit as a result: 16, 32 and 64 MB.

A result of this size costs fresh pages in each call, unless it reuses the memory of an earlier
result.  The JAX column is PennyLane's default.qubit under ``jax.jit``.

Limit: the same circuit with one expectation value as its result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.case import LIMIT, Case, Program, Target, synchronous
from benchmarks.cases.large_circuits import layers
from benchmarks.gates import apply, parameters

SIZES = (20, 21, 22)


def _build(
    device: str, compile_: Callable[..., Any], result: Callable[[], Any], wires: int
) -> Program:
    import jax.numpy as jnp
    import pennylane as qml

    gates = list(layers(wires))

    @qml.qnode(qml.device(device, wires=wires))
    def circuit(angles: Any) -> Any:
        apply(gates, angles)
        return result()

    return synchronous(compile_(circuit), jnp.asarray(parameters(gates)))


def _qjit(wires: int) -> Program:
    import pennylane as qml

    import bellhop

    return _build("lightning.qubit", bellhop.qjit, qml.state, wires)


def _jax(wires: int) -> Program:
    import jax
    import pennylane as qml

    return _build("default.qubit", jax.jit, qml.state, wires)


def _limit(wires: int) -> Program:
    import pennylane as qml

    import bellhop

    program = _build("lightning.qubit", bellhop.qjit, lambda: qml.expval(qml.Z(0)), wires)
    return Program(program.run, comparable=False, compiles=False)


def _case(wires: int) -> Case:
    return Case(
        name=f"state-result-{wires}",
        title=f"state of {wires} qubits as a result",
        limit="the same circuit with an expectation value as its result",
        builders={
            "bellhop": lambda: _qjit(wires),
            "jax": lambda: _jax(wires),
            LIMIT: lambda: _limit(wires),
        },
        unavailable={"catalyst": "these cases have a limit instead"},
        targets=(Target(LIMIT, 1 / 1.5),),
    )


CASES = [_case(wires) for wires in SIZES]
