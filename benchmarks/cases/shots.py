"""Means over 10^4 shots of `default.qubit`, and their gradients.

The circuit is that of `circuits`, with 12 qubits.  Bellhop's engine runs it, and takes its gradient
by the likelihood of the samples; under `jax.jit`, PennyLane's own default.qubit shifts each angle.
No limit is known that is not a simulator of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.case import Case, Program, Target, synchronous
from benchmarks.cases.circuits import ring_angles, ring_circuit

WIRES = 12
SHOTS = 10_000


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


CASES = [_case(gradient) for gradient in (False, True)]
