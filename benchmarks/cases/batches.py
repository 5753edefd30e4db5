"""A batch of circuits, as `vmap` makes it, and the gradient of each.

The circuits are those of `circuits`, with other angles in each row.  The JAX column is
`jax.vmap` of PennyLane's default.qubit under `jax.jit`.  One more row has the smallest circuits on
default.qubit in Bellhop too, which its engine runs like those on lightning.qubit.

Limit: Lightning's own time for as many circuits as each core has, through its Python bindings.
These cost up to a microsecond for each gate, so for small circuits that is no limit, and there is
none.  "beside-rows" is a batch whose limit is Bellhop's own time for a Python loop over its rows.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

from benchmarks.case import LIMIT, Case, Program, Target, qjit_builders, synchronous
from benchmarks.cases.circuits import ring_circuit, ring_gates
from benchmarks.gates import Lightning, parameters

# Qubits and rows.
SIZES = ((4, 1000), (10, 64), (16, 8))
# From so many qubits on, gates cost more than the calls that apply them.
LARGE = 10
# A batch of so few rows and qubits should not be slower than its rows one by one.
FEW_ROWS, FEW_WIRES = 10, (6, 11, 12, 13)


def _angles(wires: int, rows: int) -> Any:
    import jax.numpy as jnp

    shifts = jnp.linspace(0.0, 1.0, rows)[:, None]
    return jnp.asarray(parameters(ring_gates(wires))) + shifts


def _jax(wires: int, rows: int, gradient: bool) -> Program:
    import jax

    circuit = ring_circuit("default.qubit", wires, interface="jax", diff_method="backprop")
    mapped = jax.vmap(jax.grad(circuit) if gradient else circuit)
    return synchronous(jax.jit(mapped), _angles(wires, rows))


def _qjit(api: Any, wires: int, rows: int, gradient: bool) -> Program:
    circuit = ring_circuit("lightning.qubit", wires, diff_method="adjoint")

    def program(angles: Any) -> Any:
        return api.vmap(api.grad(circuit) if gradient else circuit)(angles)

    return synchronous(api.qjit(program), _angles(wires, rows))


def _default_qubit_gradient(wires: int, rows: int) -> Program:
    import bellhop

    circuit = ring_circuit("default.qubit", wires)
    mapped = bellhop.qjit(bellhop.vmap(bellhop.grad(circuit)))
    return synchronous(mapped, _angles(wires, rows))


def _limit(wires: int, rows: int, gradient: bool) -> Program:
    gates = ring_gates(wires)
    lightning = Lightning(wires, gates, parameters(gates), wire=0)
    once = lightning.gradient if gradient else lightning.expectation
    of_a_core = math.ceil(rows / len(os.sched_getaffinity(0)))

    def run() -> None:
        for _ in range(of_a_core):
            once()

    return Program(run, comparable=False, compiles=False)


def _rows(wires: int, rows: int, gradient: bool) -> Program:
    import bellhop

    circuit = ring_circuit("lightning.qubit", wires, diff_method="adjoint")
    run_row = bellhop.qjit(bellhop.grad(circuit) if gradient else circuit)
    angles = list(_angles(wires, rows))

    def run() -> None:
        for row in angles:
            run_row(row).block_until_ready()

    return Program(run, comparable=False, compiles=False)


def _case(
    name: str,
    wires: int,
    rows: int,
    gradient: bool,
    limit: str,
    build_limit: Callable[[int, int, bool], Program] | None,
    targets: tuple[Target, ...] = (),
) -> Case:
    """Make the case of a batch of circuits, or of their gradients.

    Args:
        name: the part of the case's name that tells it from other batches.
        wires: number of wires.
        rows: number of circuits.
        gradient: whether the case differentiates the circuits.
        limit: what the limit measures.
        build_limit: takes `wires`, `rows` and `gradient`; None for a case without a limit.
        targets: what Bellhop is held to.
    """
    limits = {} if build_limit is None else {LIMIT: lambda: build_limit(wires, rows, gradient)}
    return Case(
        name=f"{'gradient' if gradient else 'batch'}-{name}-{wires}",
        title=f"{'adjoint gradients' if gradient else 'circuits'} of {rows} rows, {wires} qubits",
        limit=limit if limits else "none",
        builders={
            "jax": lambda: _jax(wires, rows, gradient),
            **qjit_builders(lambda api: _qjit(api, wires, rows, gradient)),
            **limits,
        },
        items=rows,
        unit="row",
        targets=targets,
    )


def _case_beside_cores(wires: int, rows: int, gradient: bool) -> Case:
    limit = "lightning.qubit through its Python bindings, the rows shared by the cores"
    build_limit = _limit if wires >= LARGE else None
    return _case(f"of-{rows}", wires, rows, gradient, limit, build_limit)


def _case_beside_rows(wires: int, gradient: bool) -> Case:
    limit = "bellhop, one row after another"
    targets = (Target(LIMIT, 1),)
    return _case("beside-rows", wires, FEW_ROWS, gradient, limit, _rows, targets)


def _default_qubit_case(wires: int, rows: int) -> Case:
    return Case(
        name=f"default-qubit-gradient-of-{rows}-{wires}",
        title=f"gradients of {rows} rows, {wires} qubits, on default.qubit",
        limit="none",
        builders={
            "bellhop": lambda: _default_qubit_gradient(wires, rows),
            "jax": lambda: _jax(wires, rows, gradient=True),
        },
        unavailable={"catalyst": "default.qubit is no device of Catalyst's"},
        items=rows,
        unit="row",
    )


CASES = [
    *(_case_beside_cores(*size, gradient) for gradient in (False, True) for size in SIZES),
    *(_case_beside_rows(wires, gradient) for gradient in (False, True) for wires in FEW_WIRES),
    _default_qubit_case(*SIZES[0]),
]
