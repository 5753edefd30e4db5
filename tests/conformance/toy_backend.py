"""A whole backend in one file: what it needs of Bellhop is `bellhop.circuits.ir` alone.

It simulates state vectors with JAX, and runs a circuit once for each combination of mid-circuit
outcomes. Circuits on a `ToyDevice` are traced, compiled and differentiated like all others.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.circuits.ir.backend_registry import register_backend
from bellhop.circuits.ir.circuit import Circuit
from bellhop.circuits.ir.interpreter import GateReceiver
from bellhop.circuits.ir.measurement_types import is_measurement
from bellhop.circuits.ir.seeds import make_random_key
from bellhop.circuits.ir.wires import WireMap


class ToyDevice(qml.devices.Device):
    """A device whose circuits the toy backend runs in compiled programs."""

    name = "toy.qubit"

    def execute(self, circuits: Any, execution_config: Any = None) -> Any:
        raise NotImplementedError("toy.qubit runs in compiled programs only")


class Simulator(GateReceiver):
    """Applies a circuit to a state vector, for one combination of mid-circuit outcomes."""

    def __init__(self, wires: WireMap, where: str, outcomes: Sequence[int]) -> None:
        super().__init__(wires, where)
        self.outcomes, self.n_measured = outcomes, 0
        self.state = jnp.zeros(2 ** len(wires), complex).at[0].set(1)

    def apply(self, operations: Sequence[Any]) -> None:
        for op in operations:
            if isinstance(op, qml.operation.StatePrepBase):
                self.state = jnp.ravel(op.state_vector(self.wires.labels)).astype(complex)
            elif op.name != "Barrier":
                self.state = qml.matrix(op, self.wires.labels) @ self.state

    def mid_measure(self, label: Any, *, reset: bool, postselect: int, **_: Any) -> Any:
        bit = self.outcomes[self.n_measured] if self.n_measured < len(self.outcomes) else 0
        self.n_measured += 1
        self.apply([qml.Projector([bit], wires=label)])
        if postselect == 1 - bit:
            self.state = self.state * 0
        if reset and bit:
            self.apply([qml.X(label)])
        return jnp.asarray(bool(bit))

    def _run(self, state: Any, function: Any, *args: Any) -> tuple[Any, Any]:
        """Run a loop's body or a branch from a state; return the state after it and its result."""
        outer, self.state = self.state, state
        result = function(*args)
        state, self.state = self.state, outer
        return state, result

    def for_loop(self, n_iterations: Any, body: Any, carried: Any, **_: Any) -> Any:
        if isinstance(n_iterations, int):
            # Unrolled, so that each outcome of a measurement in the loop has a place.
            for index in range(n_iterations):
                carried = body(carried, np.asarray(index))
            return carried
        step = lambda i, now: self._run(now[0], body, now[1], i)
        self.state, carried = jax.lax.fori_loop(0, n_iterations, step, (self.state, carried))
        return carried

    def while_loop(self, condition: Any, body: Any, carried: Any) -> Any:
        step = lambda now: self._run(now[0], body, now[1])
        start = self.state, carried
        self.state, carried = jax.lax.while_loop(lambda now: condition(now[1]), step, start)
        return carried

    def branch(self, branches: Any) -> Any:
        run = lambda function: lambda: self._run(self.state, function)
        self.state, result = jax.lax.switch(branches.index, list(map(run, branches.functions)))
        return result

    def measure(self, process: Any, shots: int, key: Any) -> Any:
        """Return the unnormalized value of a measurement, or samples of the normalized state."""
        order, probabilities = self.wires.labels, jnp.abs(self.state) ** 2
        if isinstance(process, qml.measurements.StateMP):
            return self.state
        if isinstance(process, qml.measurements.ProbabilityMP):
            wires = process.wires or order
            cube = probabilities.reshape([2] * len(order))
            places = [order.index(wire) for wire in wires]
            others = tuple(k for k in range(len(order)) if k not in places)
            kept = [k for k in range(len(order)) if k in places]
            marginal = jnp.sum(cube, axis=others)
            return jnp.ravel(jnp.transpose(marginal, [kept.index(k) for k in places]))
        if isinstance(process, qml.measurements.SampleMP):
            index = jax.random.categorical(key, jnp.log(probabilities), shape=(shots,))
            bits = (index[:, None] >> np.arange(len(order))[::-1]) & 1
            return bits[:, [order.index(wire) for wire in process.wires or order]]
        image = qml.matrix(process.obs, order) @ self.state
        mean = jnp.real(jnp.vdot(self.state, image))
        is_variance = isinstance(process, qml.measurements.VarianceMP)
        return jnp.real(jnp.vdot(image, image)) - mean**2 if is_variance else mean


def run_on_toy(circuit: Circuit, device: Any, wires: WireMap) -> Any:
    """Run a circuit: the sum over all outcomes, divided by the probability of those kept."""

    def run_row(rows: Any, row: Any, *inputs: Any) -> Any:
        key = make_random_key(row, *inputs) if circuit.shots.total else None

        def run(outcomes: Sequence[int]) -> Any:
            simulator = Simulator(wires, circuit.where, outcomes)
            leaves, tree = circuit.function.apply_to_circuit(simulator, inputs)
            shots = circuit.shots.total
            values = [simulator.measure(x, shots, key) if is_measurement(x) else x for x in leaves]
            weight = jnp.real(jnp.vdot(simulator.state, simulator.state))
            return simulator.n_measured, weight, values, leaves, tree

        n, weight, values, leaves, tree = run(())
        for outcomes in itertools.product((0, 1), repeat=n):
            if any(outcomes):
                _, more, others, *_ = run(outcomes)
                weight, values = weight + more, jax.tree.map(jnp.add, values, others)
        if n:
            values = [value / weight for value in values]
        return jax.tree.unflatten(tree, values), leaves, tree

    return circuit.trace_rows(run_row)


register_backend(ToyDevice, run_on_toy)
