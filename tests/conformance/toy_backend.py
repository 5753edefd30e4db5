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
from bellhop.circuits.ir.gate_jaxpr import (
    ForLoop,
    GateInterpreter,
    WhileLoop,
    get_operations,
    get_region,
)
from bellhop.circuits.ir.measurement_types import is_measurement
from bellhop.circuits.ir.seeds import make_random_key
from bellhop.circuits.ir.wires import WireMap


class ToyDevice(qml.devices.Device):
    """A device whose circuits the toy backend runs in compiled programs."""

    name = "toy.qubit"

    def execute(self, circuits: Any, execution_config: Any = None) -> Any:
        raise NotImplementedError("toy.qubit runs in compiled programs only")


class Recorder(GateInterpreter):
    """Collects the operations of a jaxpr with gates whose loops have static trip counts."""

    def __init__(self) -> None:
        self.operations: list[Any] = []

    def _interpret_classical(self, eqn: Any, *operands: Any) -> Sequence[Any]:
        found = eqn.primitive.bind(*operands, **eqn.params)
        return found if eqn.primitive.multiple_results else [found]

    def _interpret_operations(self, eqn: Any, *operands: Any) -> Sequence[Any]:
        self.apply(get_operations(eqn, operands))
        return []

    def apply(self, operations: Sequence[Any]) -> None:
        self.operations += operations

    def _interpret_region(self, eqn: Any, *operands: Any) -> Sequence[Any]:
        gates, controls = get_region(eqn, operands)
        inner = Recorder()
        inner.interpret(gates.closed, *gates.operands)
        if controls is None:
            self.apply([qml.adjoint(op) for op in reversed(inner.operations)])
        else:
            self.apply([qml.ctrl(op, *controls) for op in inner.operations])
        return []

    def _interpret_for_loop(self, eqn: Any, *operands: Any) -> Sequence[Any]:
        loop = ForLoop.from_equation(eqn, operands)
        carried: Any = loop.carried
        for index in range(loop.length):
            carried = self.interpret(loop.body, *loop.constants, np.asarray(index), *carried)
        return carried

    def _refuse(self, eqn: Any, *_: Any) -> Any:
        raise NotImplementedError(f"toy.qubit: {eqn.primitive} in an adjoint or ctrl")

    _interpret_outcome = _interpret_while_loop = _interpret_cond = _refuse


class Simulator(Recorder):
    """Applies a jaxpr with gates to a state vector, for one combination of outcomes."""

    def __init__(self, wires: WireMap, outcomes: Sequence[int]) -> None:
        self.wires, self.outcomes, self.n_measured = wires, outcomes, 0
        self.state = jnp.zeros(2 ** len(wires), complex).at[0].set(1)

    def apply(self, operations: Sequence[Any]) -> None:
        for op in operations:
            if isinstance(op, qml.operation.StatePrepBase):
                self.state = jnp.ravel(op.state_vector(self.wires.labels)).astype(complex)
            elif op.name != "Barrier":
                self.state = qml.matrix(op, self.wires.labels) @ self.state

    def _interpret_outcome(self, eqn: Any, *operands: Any) -> Sequence[Any]:
        [wire] = eqn.params["operator"].with_values(operands)
        bit = self.outcomes[self.n_measured] if self.n_measured < len(self.outcomes) else 0
        self.n_measured += 1
        self.apply([qml.Projector([bit], wires=wire)])
        if eqn.params["postselect"] == 1 - bit:
            self.state = self.state * 0
        if eqn.params["reset"] and bit:
            self.apply([qml.X(wire)])
        return [jnp.asarray(bool(bit))]

    def _run(self, state: Any, closed: Any, *inputs: Any) -> tuple[Any, list[Any]]:
        outer, self.state = self.state, state
        results = self.interpret(closed, *inputs)
        state, self.state = self.state, outer
        return state, results

    def _interpret_for_loop(self, eqn: Any, *operands: Any) -> Sequence[Any]:
        loop = ForLoop.from_equation(eqn, operands)
        if isinstance(loop.length, int):
            return super()._interpret_for_loop(eqn, *operands)
        step = lambda i, now: self._run(now[0], loop.body, *loop.constants, i, *now[1])
        start = self.state, list(loop.carried)
        self.state, carried = jax.lax.fori_loop(0, loop.length, step, start)
        return carried

    def _interpret_while_loop(self, eqn: Any, *operands: Any) -> Sequence[Any]:
        loop = WhileLoop.from_equation(eqn, operands)
        step = lambda now: self._run(now[0], loop.body, *loop.constants, *now[1])
        start = self.state, list(loop.carried)
        self.state, carried = jax.lax.while_loop(lambda now: loop.condition(now[1]), step, start)
        return carried

    def _interpret_cond(self, eqn: Any, *operands: Any) -> Sequence[Any]:
        index, *inputs = operands
        run = lambda closed: lambda: self._run(self.state, closed, *inputs)
        self.state, results = jax.lax.switch(index, list(map(run, eqn.params["branches"])))
        return results

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
        traced = circuit.function.get_traced(circuit.where, inputs)
        key = make_random_key(row, *inputs) if circuit.shots.total else None

        def run(outcomes: Sequence[int]) -> Any:
            simulator = Simulator(wires, outcomes)
            leaves = traced.leaves.with_values(simulator.interpret(traced.closed, *inputs))
            shots = circuit.shots.total
            values = [simulator.measure(x, shots, key) if is_measurement(x) else x for x in leaves]
            weight = jnp.real(jnp.vdot(simulator.state, simulator.state))
            return simulator.n_measured, weight, values, leaves

        n, weight, values, leaves = run(())
        for outcomes in itertools.product((0, 1), repeat=n):
            if any(outcomes):
                _, more, others, _ = run(outcomes)
                weight, values = weight + more, jax.tree.map(jnp.add, values, others)
        if n:
            values = [value / weight for value in values]
        return jax.tree.unflatten(traced.tree, values), leaves, traced.tree

    return circuit.trace_rows(run_row)


register_backend(ToyDevice, run_on_toy)
