"""Circuits with mid-circuit measurements, averaged over all outcomes, and their gradients.

The first has one measurement between 60 rotations of 4 qubits.  The second is a quantum
convolutional network of 8: in each layer every second of the qubits that are left is measured, and
turns its neighbour, so that 7 measurements have 128 combinations of outcomes.  The JAX column is
default.qubit under `jax.jit`, which defers measurements and differentiates by backpropagation.

The last circuit has 14 measurements on 3 qubits, which Bellhop averages in a density matrix.  Here
the JAX column is Bellhop too, with one run for each combination of outcomes (`tree-traversal`).

Limit: none.
"""

from __future__ import annotations

from typing import Any

from benchmarks.case import Case, Program, Target, synchronous

ROTATIONS, WIRES, NETWORK = 60, 4, 8
MEASUREMENTS, FEW_WIRES = 14, 3


def _one_measurement(of: Any) -> Any:
    import pennylane as qml

    def circuit(angles: Any) -> Any:
        for i in range(ROTATIONS // 2):
            qml.RX(angles[i], i % WIRES)
        for wire in range(WIRES):
            qml.CNOT([wire, (wire + 1) % WIRES])
        outcome = of.measure(0)
        of.cond(outcome, lambda: qml.RX(angles[0], 1))
        for i in range(ROTATIONS // 2, ROTATIONS):
            qml.RY(angles[i], i % WIRES)
        return qml.expval(qml.Z(1) @ qml.Z(2))

    return circuit


def _network(of: Any) -> Any:
    import pennylane as qml

    def convolution(p: Any, first: int, second: int) -> None:
        qml.RX(p[0], first)
        qml.RX(p[1], second)
        qml.CNOT([first, second])
        qml.RY(p[2], first)
        qml.RZ(p[3], second)
        qml.CNOT([second, first])
        qml.RY(p[4], first)

    def turn(p: Any, wire: int) -> None:
        qml.RZ(p[5], wire)
        qml.RX(p[6], wire)

    def circuit(parameters: Any) -> Any:
        for wire in range(NETWORK):
            qml.RY(0.3 * wire, wire)
        wires = list(range(NETWORK))
        for p in parameters:
            for first in range(2):
                for i in range(first, len(wires) - 1, 2):
                    convolution(p, wires[i], wires[i + 1])
            for kept, measured in zip(wires[::2], wires[1::2], strict=True):
                of.cond(of.measure(measured), lambda p=p, kept=kept: turn(p, kept))
            wires = wires[::2]
        return qml.expval(qml.Z(wires[0]))

    return circuit


def _many_outcomes(of: Any) -> Any:
    """Return a quantum function that measures few wires often; outcomes control gates."""
    import pennylane as qml

    def circuit(x: Any) -> Any:
        for i in range(MEASUREMENTS):
            wire, other = i % FEW_WIRES, (i + 1) % FEW_WIRES
            qml.RX(x + i, wire)
            qml.CNOT([wire, other])
            of.cond(of.measure(wire), lambda other=other: qml.RY(x, other) and None)
        return qml.expval(qml.Z(0))

    return circuit


class _BellhopMeasurements:
    def measure(self, wire: int) -> Any:
        import bellhop

        return bellhop.measure(wire)

    def cond(self, outcome: Any, apply: Any) -> None:
        import bellhop

        def branch() -> None:
            apply()

        bellhop.cond(outcome)(branch)()


class _PennyLaneMeasurements:
    def measure(self, wire: int) -> Any:
        import pennylane as qml

        return qml.measure(wire)

    def cond(self, outcome: Any, apply: Any) -> None:
        import pennylane as qml

        qml.cond(outcome, apply)()


def _inputs(size: tuple[int, ...]) -> Any:
    import jax.numpy as jnp
    import numpy as np

    return jnp.asarray(np.random.default_rng(0).uniform(0, 3, size))


def _qjit(
    make: Any, wires: int, size: tuple[int, ...], gradient: bool, mcm_method: str | None = None
) -> Program:
    import pennylane as qml

    import bellhop

    device = qml.device("lightning.qubit", wires=wires)
    circuit = qml.QNode(make(_BellhopMeasurements()), device, mcm_method=mcm_method)

    def program(inputs: Any) -> Any:
        return (bellhop.grad(circuit) if gradient else circuit)(inputs)

    return synchronous(bellhop.qjit(program), _inputs(size))


def _jax(make: Any, size: tuple[int, ...], gradient: bool) -> Program:
    import jax
    import pennylane as qml

    device = qml.device("default.qubit")
    circuit = qml.QNode(
        make(_PennyLaneMeasurements()), device, interface="jax", mcm_method="deferred"
    )
    return synchronous(jax.jit(jax.grad(circuit) if gradient else circuit), _inputs(size))


def _case(
    name: str, title: str, make: Any, wires: int, size: tuple[int, ...], gradient: bool
) -> Case:
    return Case(
        name=f"{name}-gradient" if gradient else name,
        title=f"gradient of {title}" if gradient else title,
        limit="none",
        builders={
            "bellhop": lambda: _qjit(make, wires, size, gradient),
            "jax": lambda: _jax(make, size, gradient),
        },
        unavailable={
            "catalyst": "it refuses gradients of circuits that measure in the middle"
            if gradient
            else "it has one random run of a circuit without shots, no average"
        },
    )


def _case_of_many_outcomes(gradient: bool) -> Case:
    """Return the case of `_many_outcomes`: its value, or its gradient."""
    build = lambda mcm_method: _qjit(_many_outcomes, FEW_WIRES, (), gradient, mcm_method)
    return Case(
        name="many-outcomes-gradient" if gradient else "many-outcomes",
        title=f"{'gradient of ' if gradient else ''}{MEASUREMENTS} measurements on 3 qubits",
        limit="none",
        builders={"bellhop": lambda: build(None), "jax": lambda: build("tree-traversal")},
        unavailable={"catalyst": "it has one random run of a circuit without shots, no average"},
        # The first call takes at most twice as long.
        targets=(Target("jax", 100.0), Target("jax", 0.5, "compile")),
    )


CASES = [
    *(
        _case(*circuit, gradient)
        for circuit in (
            ("one-measurement", "60 rotations and one measurement", _one_measurement, WIRES, (60,)),
            ("convolutional-network", "a network of 7 measurements", _network, NETWORK, (3, 7)),
        )
        for gradient in (False, True)
    ),
    *map(_case_of_many_outcomes, (False, True)),
]
