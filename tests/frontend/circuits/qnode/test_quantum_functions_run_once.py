"""The quantum function of a QNode runs once a compilation, however its circuit is traced."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.frontend.circuits.python_devices.counting_device import CountingDevice

import bellhop
from bellhop.circuits.front.quantum_function import QuantumFunction


def gates(x: Any) -> Any:
    qml.RX(x, wires=0)
    qml.CNOT([0, 1])
    return qml.expval(qml.Z(1))


def flow(x: Any) -> Any:
    bellhop.for_loop(0, 3)(lambda i: qml.RX(x * i, wires=0) and None)()
    bellhop.cond(x > 0, lambda: qml.RY(x, wires=1) and None)()
    bellhop.adjoint(lambda: qml.RZ(x, wires=1))()
    return qml.expval(qml.Z(0) @ qml.Z(1))


def computed_loop(x: Any) -> Any:
    n = jnp.asarray(2 + x, int)
    bellhop.for_loop(0, n)(lambda i: qml.RX(x * i, wires=0) and None)()
    bellhop.while_loop(lambda y: y < 1)(lambda y: (qml.RY(y, wires=0), y * 2)[1])(x)
    return qml.expval(qml.Z(0))


def outcomes(x: Any) -> Any:
    qml.RX(x, wires=0)
    qml.cond(bellhop.measure(0), qml.RY)(x, wires=1)
    return qml.expval(qml.Z(1))


def needed_outcomes(x: Any) -> Any:
    qml.RX(x, wires=0)
    outcome = bellhop.measure(0, reset=True)
    bellhop.cond(outcome, lambda: qml.RY(x, wires=0) and None)()
    return qml.expval(qml.Z(0))


def undeferred_outcome(x: Any) -> Any:
    """Deferral of the outcome fails at the last gate, which changes the measured wire."""
    qml.RX(x, wires=0)
    qml.cond(bellhop.measure(0), qml.RY)(x, wires=1)
    qml.CNOT([1, 0])
    return qml.expval(qml.Z(0))


def many_outcomes(x: Any) -> Any:
    """More outcomes than shots, so that shots do not share runs."""
    for _ in range(6):
        qml.RX(x, wires=0)
        outcome = bellhop.measure(0, reset=True)
        bellhop.cond(outcome, lambda: qml.RY(x, wires=0) and None)()
    return qml.expval(qml.Z(0))


def many_undeferred_outcomes(x: Any) -> Any:
    """Outcomes whose deferral fails at the last gate; too many values for shared runs."""
    for wire in range(6):
        qml.RX(x, wires=wire)
        qml.cond(bellhop.measure(wire), qml.RY)(x, wires=6)
    qml.CNOT([6, 0])
    return qml.probs(wires=[0, 1, 2])


def many_used_outcomes(x: Any) -> Any:
    """Outcomes that are angles of gates; too many values for shared runs."""
    for wire in range(6):
        qml.RX(x, wires=wire)
        qml.RY(1.0 * bellhop.measure(wire), wires=6)
    return qml.probs(wires=[0, 1, 6])


def outcomes_and_a_number(x: Any) -> Any:
    """Outcomes that could be deferred but for the number; too many values for shared runs."""
    for wire in range(6):
        qml.RX(x, wires=wire)
        qml.cond(bellhop.measure(wire), qml.RY)(x, wires=6)
    return qml.probs(wires=[0, 1, 6]), x


def lightning(function: Callable[..., Any], **options: Any) -> Any:
    return qml.QNode(function, qml.device("lightning.qubit", wires=2), **options)


def with_shots(node: Any) -> Any:
    return qml.set_shots(node, 20)


noise = qml.NoiseModel(
    {qml.noise.op_in([qml.RX]): qml.noise.partial_wires(qml.DepolarizingChannel, 0.1)}
)

# What makes a QNode of a function, and the functions that it takes.
MIXED = lambda f: qml.QNode(f, qml.device("default.mixed", wires=2))
NODES: dict[str, tuple[Callable[..., Any], tuple[Callable[..., Any], ...]]] = {
    "lightning": (lightning, (gates, flow, computed_loop, outcomes, needed_outcomes)),
    "shots": (
        lambda f: with_shots(lightning(f)),
        (
            gates,
            flow,
            computed_loop,
            outcomes,
            needed_outcomes,
            undeferred_outcome,
            many_outcomes,
        ),
    ),
    "parameter shifts": (lambda f: lightning(f, diff_method="parameter-shift"), (gates, flow)),
    "default.qubit": (
        lambda f: qml.QNode(f, qml.device("default.qubit")),
        (gates, flow, computed_loop, outcomes, needed_outcomes),
    ),
    "default.qubit, shots": (
        lambda f: with_shots(qml.QNode(f, qml.device("default.qubit", seed=1))),
        (
            gates,
            flow,
            needed_outcomes,
            undeferred_outcome,
            many_outcomes,
            many_undeferred_outcomes,
            many_used_outcomes,
            outcomes_and_a_number,
        ),
    ),
    "finite differences in the program": (
        lambda f: qml.QNode(f, qml.device("default.mixed"), diff_method="finite-diff"),
        (gates, flow),
    ),
    "default.mixed": (MIXED, (gates, flow, computed_loop, outcomes, needed_outcomes)),
    "noise": (
        lambda f: qml.add_noise(MIXED(f), noise),
        (gates, flow, computed_loop, needed_outcomes),
    ),
    "mitigation": (
        lambda f: bellhop.mitigate_with_zne(lightning(f), scale_factors=[1, 3, 5]),
        (gates, flow),
    ),
    "a transform": (lambda f: qml.transforms.defer_measurements(lightning(f)), (gates,)),
    "a tape": (lambda f: qml.transforms.split_non_commuting(lightning(f)), (gates,)),
    "a device that Python calls": (
        lambda f: qml.QNode(f, CountingDevice(wires=2)),
        (gates, flow, outcomes),
    ),
    "null.qubit": (lambda f: qml.QNode(f, qml.device("null.qubit", wires=2)), (gates, flow)),
}
CELLS = {
    f"{name}: {function.__name__}": (make, function)
    for name, (make, functions) in NODES.items()
    for function in functions
}


@pytest.mark.axes(name=lambda name: tuple(name.split(": ")))
@pytest.mark.parametrize("name", CELLS)
def test_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first call runs a quantum function once, and applies its gates at most twice."""
    make, function = CELLS[name]
    runs: list[Any] = []
    traces: list[QuantumFunction] = []
    apply_to_circuit = QuantumFunction.apply_to_circuit

    def noted(x: Any) -> Any:
        runs.append(x)
        return function(x)

    def count_trace(self: QuantumFunction, *args: Any) -> Any:
        traces.append(self)
        return apply_to_circuit(self, *args)

    monkeypatch.setattr(QuantumFunction, "apply_to_circuit", count_trace)
    jax.block_until_ready(bellhop.qjit(make(noted))(0.3))
    assert len(runs) == 1
    # Each scale factor of mitigation is a circuit of its own.
    assert max(map(traces.count, traces)) <= 2


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda node: bellhop.grad(node)(0.3),
    "jacobian": lambda node: bellhop.jacobian(node)(0.3),
    "hessian": lambda node: jax.hessian(node)(0.3),
    "vmap": lambda node: jax.vmap(node)(jnp.array([0.3, 0.4])),
    "vmap of grad": lambda node: bellhop.vmap(bellhop.grad(node))(jnp.array([0.3, 0.4])),
    "rows": lambda node: node(jnp.array([0.3, 0.4])),
    "scan": lambda node: jax.lax.scan(lambda c, x: (c, node(x)), 0, jnp.array([0.3, 0.4])),
}


@pytest.mark.parametrize("device", ["lightning.qubit", "default.mixed", "python"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_once_in_a_program(program: str, device: str) -> None:
    runs: list[Any] = []

    def noted(x: Any) -> Any:
        runs.append(x)
        return gates(x)

    made = CountingDevice(wires=2) if device == "python" else qml.device(device, wires=2)
    values = jax.tree.leaves(bellhop.qjit(lambda: PROGRAMS[program](qml.QNode(noted, made)))())
    assert len(runs) == 1
    assert np.all(np.isfinite(values[-1]))
