"""Many gates on 4 qubits, in straight-line code and in compiled loops.

The first ask whether compilation stays bearable when a program is unrolled, with angles that are
given and angles that are computed; the loops what one gate costs, and whether that and the
compile time stay the same from 2000 gates to 200 000: in one loop and its gradient, in a loop in
a loop, and in a loop whose length is an argument.  Limit: Lightning's own time, approximated
through its Python bindings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.case import LIMIT, Case, Program, qjit_builders, synchronous
from benchmarks.gates import Gate, Lightning, apply, parameters

WIRES = 4
PAIRS = 1000
ITERATIONS = 1_000, 10_000, 100_000
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


def _computed_qnode(device: str, **options: Any) -> Any:
    import pennylane as qml

    @qml.qnode(qml.device(device, wires=WIRES), **options)
    def circuit(angle: Any) -> Any:
        for index in range(PAIRS):
            wire = index % WIRES
            qml.RX(angle * index, wires=wire)
            qml.CNOT(wires=(wire, (wire + 1) % WIRES))
        return qml.expval(qml.PauliZ(0))

    return circuit


def _computed_qjit(api: Any) -> Program:
    import jax.numpy as jnp

    return synchronous(api.qjit(_computed_qnode("lightning.qubit")), jnp.asarray(ANGLE))


def _computed_limit() -> Program:
    gates = _unrolled_gates()
    angles = ANGLE * np.arange(PAIRS)
    return Program(Lightning(WIRES, gates, angles, wire=0).expectation, compiles=False)


def _body(angle: Any, index: Any) -> None:
    import pennylane as qml

    # An angle that depends on the index keeps the gates from being merged.
    qml.RX(angle * index, wires=0)
    qml.CNOT(wires=(0, 1))


def _one_loop(api: Any, angle: Any, iterations: Any) -> None:
    api.for_loop(0, iterations, 1)(lambda index: _body(angle, index))()


def _loop_in_a_loop(api: Any, angle: Any, iterations: int) -> None:
    inner = 100

    def outer(iteration: Any) -> None:
        api.for_loop(0, inner, 1)(lambda index: _body(angle, iteration * inner + index))()

    api.for_loop(0, iterations // inner, 1)(outer)()


def _loop_qjit(api: Any, iterations: int, form: _Form) -> Program:
    import jax.numpy as jnp
    import pennylane as qml

    @qml.qnode(qml.device("lightning.qubit", wires=WIRES), diff_method="adjoint")
    def circuit(angle: Any, length: Any) -> Any:
        form.loops(api, angle, length if form.is_dynamic else iterations)
        return qml.expval(qml.PauliZ(1))

    def program(angle: Any, length: Any) -> Any:
        return (api.grad(circuit) if form.gradient else circuit)(angle, length)

    return synchronous(api.qjit(program), jnp.asarray(ANGLE), jnp.asarray(iterations))


def _loop_limit(iterations: int, gradient: bool) -> Program:
    gates: list[Gate] = []
    for index in range(iterations):
        gates += [Gate("RX", (0,), index), Gate("CNOT", (0, 1))]
    angles = ANGLE * np.arange(iterations)
    lightning = Lightning(WIRES, gates, angles, wire=1)
    if not gradient:
        return Program(lightning.expectation, compiles=False)
    return Program(lambda: lightning.gradient() @ np.arange(iterations), compiles=False)


@dataclass(frozen=True)
class _Form:
    """How gates are repeated."""

    name: str
    title: str
    loops: Callable[[Any, Any, Any], None]
    gradient: bool = False
    #: Whether the number of iterations is an argument.
    is_dynamic: bool = False


FORMS = (
    _Form("gates-loop", "in a compiled loop", _one_loop),
    _Form("gates-loop-gradient", "in a compiled loop, gradient", _one_loop, gradient=True),
    _Form("gates-nested-loop", "in a loop in a loop", _loop_in_a_loop),
    _Form("gates-dynamic-loop", "in a loop of a length given", _one_loop, is_dynamic=True),
)


def _loop_case(iterations: int, form: _Form) -> Case:
    return Case(
        name=f"{form.name}-{2 * iterations}",
        title=f"{2 * iterations} gates {form.title}",
        limit="lightning.qubit through its Python bindings",
        builders={
            **qjit_builders(lambda api: _loop_qjit(api, iterations, form)),
            LIMIT: lambda: _loop_limit(iterations, form.gradient),
        },
        unavailable={"jax": "default.qubit under jax.jit unrolls loops of gates"},
        items=2 * iterations,
        unit="gate",
    )


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
        name="gates-computed",
        title=f"{2 * PAIRS} gates in straight-line code, angles computed one by one",
        limit="lightning.qubit through its Python bindings",
        builders={**qjit_builders(_computed_qjit), LIMIT: _computed_limit},
        unavailable={"jax": "default.qubit takes minutes to compile so many gates"},
        items=2 * PAIRS,
        unit="gate",
    ),
    *(_loop_case(iterations, form) for form in FORMS for iterations in ITERATIONS),
]
