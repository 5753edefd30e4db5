"""Shots: what a million of them cost, and means over 10^4 shots of `default.qubit`.

Expectation values, counts and probabilities of 10^5 and 10^6 shots of 10 qubits depend on
frequencies alone, which Bellhop draws as such.  Under `jax.jit`, PennyLane's default.qubit draws
each shot.  Limit: one multinomial draw of NumPy's over all outcomes, without the circuit.

The other cases are means over 10^4 shots of `default.qubit`, and their gradients.

The circuit is that of `circuits`, with 12 qubits.  Bellhop's engine runs it, and takes its gradient
by the likelihood of the samples; under `jax.jit`, PennyLane's own default.qubit shifts each angle.
No limit is known that is not a simulator of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.case import LIMIT, Case, Program, Target, qjit_builders, synchronous
from benchmarks.cases.circuits import ring_angles, ring_circuit, ring_gates
from benchmarks.gates import apply

WIRES = 12
SHOTS = 10_000
# Of the circuits whose frequencies are drawn.
FEW_WIRES = 10
MANY_SHOTS = (100_000, 1_000_000)


def _circuit(**options: Any) -> Any:
    return ring_circuit("default.qubit", WIRES, shots=SHOTS, **options)


def _jax(gradient: bool) -> Program:
    import jax

    circuit = _circuit(interface="jax", diff_method="parameter-shift")
    return synchronous(jax.jit(jax.grad(circuit) if gradient else circuit), ring_angles(WIRES))


def _bellhop(gradient: bool) -> Program:
    import bellhop

    circuit = _circuit()
    program = bellhop.qjit(bellhop.grad(circuit) if gradient else circuit)
    return synchronous(program, ring_angles(WIRES))


def _case(gradient: bool) -> Case:
    return Case(
        name=f"default-qubit-shots-{'gradient-' if gradient else ''}{WIRES}",
        title=f"{'gradient of a' if gradient else 'a'} mean over 10^4 shots, {WIRES} qubits, on "
        "default.qubit",
        limit="none",
        builders={"bellhop": lambda: _bellhop(gradient), "jax": lambda: _jax(gradient)},
        unavailable={"catalyst": "default.qubit is no device of Catalyst's"},
        # Ten standard deviations of one estimate.
        tolerance=10 / np.sqrt(SHOTS),
        targets=(Target("jax", 10), Target("jax", 1, measure="compile")),
    )


def _measured(kind: str, device: str, shots: int, **options: Any) -> Any:
    """Return a QNode whose result is a mean, probabilities or counts of all wires."""
    import pennylane as qml

    gates = ring_gates(FEW_WIRES)

    @qml.qnode(qml.device(device, wires=FEW_WIRES), shots=shots, **options)
    def circuit(angles: Any) -> Any:
        apply(gates, angles)
        if kind == "expval":
            return qml.expval(qml.PauliZ(0) @ qml.PauliZ(1))
        return qml.counts() if kind == "counts" else qml.probs(wires=range(FEW_WIRES))

    return circuit


def _qjit_frequencies(api: Any, kind: str, shots: int) -> Program:
    circuit = _measured(kind, "lightning.qubit", shots)

    def program(angles: Any) -> Any:
        return circuit(angles)[1] / shots if kind == "counts" else circuit(angles)

    return synchronous(api.qjit(program), ring_angles(FEW_WIRES))


def _jax_frequencies(kind: str, shots: int) -> Program:
    import jax

    circuit = _measured(kind, "default.qubit", shots, interface="jax", diff_method="best")
    return synchronous(jax.jit(circuit), ring_angles(FEW_WIRES))


def _multinomial(shots: int) -> Program:
    generator = np.random.default_rng(0)
    probabilities = np.full(2**FEW_WIRES, 2.0**-FEW_WIRES)
    return Program(
        lambda: generator.multinomial(shots, probabilities), comparable=False, compiles=False
    )


def _frequencies(kind: str, shots: int) -> Case:
    qjit = qjit_builders(lambda api: _qjit_frequencies(api, kind, shots))
    # PennyLane's counts are dictionaries, which jax.jit does not return.
    by_jax = {} if kind == "counts" else {"jax": lambda: _jax_frequencies(kind, shots)}
    return Case(
        name=f"shots-{kind}-{shots}",
        title=f"{kind} of {shots} shots, {FEW_WIRES} qubits",
        limit="one multinomial draw over all outcomes",
        builders={**qjit, **by_jax, LIMIT: lambda: _multinomial(shots)},
        unavailable={} if by_jax else {"jax": "its counts are no arrays"},
        tolerance=10 / np.sqrt(shots),
        targets=(Target("catalyst", 3),),
    )


CASES = [
    *(_frequencies(kind, shots) for kind in ("expval", "counts", "probs") for shots in MANY_SHOTS),
    *(_case(gradient) for gradient in (False, True)),
]
