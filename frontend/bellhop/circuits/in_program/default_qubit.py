"""Circuits on ``default.qubit``: traced into the program, gate by gate.

The state is an array of the program, and gates and measurements are PennyLane's own functions
of it.  So such a circuit differentiates to any order, is batched by ``jax.vmap``, and runs on
whatever device the region around it runs on.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml
from pennylane.operation import StatePrepBase

from bellhop.circuits.circuit.circuit_primitive import OUTCOMES_ARE_DRAWN
from bellhop.circuits.derivatives.diff_method import (
    ADJOINT,
    BEST,
    BY_DIFFERENCES,
    HADAMARD,
    PARAMETER_SHIFT,
)
from bellhop.circuits.derivatives.undifferentiable import undifferentiable
from bellhop.circuits.gates.broadcasting import Rows
from bellhop.circuits.gates.decompositions import DECOMPOSITION_DEPTH
from bellhop.circuits.gates.pauli_exponentials import rotation_of
from bellhop.circuits.gates.wires import WireMap
from bellhop.circuits.in_program.held_states import held
from bellhop.circuits.in_program.program_circuit import ProgramCircuit
from bellhop.circuits.in_program.shots import ShotsOfBranch
from bellhop.circuits.measure.observables import Factor, Named, terms_of
from bellhop.circuits.measure.processes import as_process, exact_statistics, sampled_statistics
from bellhop.circuits.measure.sampling import Asked
from bellhop.circuits.measure.states import by_outcome
from bellhop.circuits.measure.statistics import (
    ExactValues,
    Make,
    Statistic,
    Take,
    of_moments,
    state_of_mixture,
)
from bellhop.circuits.operations.state_array import (
    after_gate,
    in_precision,
    inner_product,
    is_applied,
    prepared,
)
from bellhop.circuits.operations.wire_faults import WireFaults
from bellhop.errors import CompileError

# Exact methods, all of which have the values that JAX computes through the state.
_EXACT_METHODS = (BEST, "backprop", ADJOINT, PARAMETER_SHIFT, HADAMARD)
_METHODS_WITH_SHOTS = (BEST, PARAMETER_SHIFT, HADAMARD)


def is_default_qubit(device: Any) -> bool:
    """Tell whether circuits on a PennyLane device are traced into the program."""
    return isinstance(device, qml.devices.DefaultQubit)


class DefaultQubitCircuit(ProgramCircuit):
    """A circuit whose state is an array with one axis of two for each qubit.

    Args:
        outcomes: the outcomes of its mid-circuit measurements, a bit for each.
        shots: the shots of the circuit that have these outcomes; None without shots.

    A measurement projects the state and does not normalize it, so that its squared norm is the
    probability of these outcomes.

    Attributes:
        state: the array.
    """

    def __init__(
        self,
        wires: WireMap,
        where: str,
        rows: Rows,
        faults: WireFaults,
        outcomes: Any,
        shots: ShotsOfBranch | None,
    ) -> None:
        super().__init__(wires, where, rows, faults)
        self._shots = shots
        self.state = prepared(wires)
        self._is_fresh = True
        self._outcomes = outcomes
        # How many mid-circuit measurements there were so far.
        self._place: Any = jnp.int32(0)
        self.postselects = False

    @property
    def _now(self) -> Any:
        return self.state, self._place, self.fault

    @_now.setter
    def _now(self, now: Any) -> None:
        self.state, self._place, self.fault = now
        self._is_fresh = False

    def apply(self, operations: Sequence[Any]) -> None:
        """Apply operations to the state, in order."""
        super().apply(operations)
        # Gates with parameters of half the precision must not change the type of a loop's state.
        self.state = in_precision(self.state)

    def _apply_gate(self, op: Any, depth: int) -> None:
        op = rotation_of(op) or op
        if self._is_fresh and isinstance(op, StatePrepBase):
            self.state = prepared(self.wires, op)
        elif is_applied(op):
            self.state = after_gate(op, self.state, self.wires)
        elif op.has_decomposition and depth < DECOMPOSITION_DEPTH:
            for part in op.decomposition():
                self._apply(part, depth + 1)
            return
        else:
            raise CompileError(
                f"{self._where}: the device does not apply {op.name}, and PennyLane has no "
                "decomposition of it. Use gates that it has."
            )
        self._is_fresh = False

    def _measured(self, label: Any, *, reset: bool, postselect: int) -> Any:
        """Project a wire on its outcome, and return that."""
        outcome = (self._outcomes >> self._place.astype(jnp.uint32)) & 1
        is_asked_for = outcome == postselect if postselect >= 0 else True
        one = jnp.where(is_asked_for, outcome, 0).astype(float)
        zero = jnp.where(is_asked_for, 1 - outcome, 0).astype(float)
        # To the outcome, or with a reset to zero.
        rows = [[zero, one], [0, 0]] if reset else [[zero, 0], [0, one]]
        with qml.QueuingManager.stop_recording():
            projector = qml.Hermitian(jnp.array(rows), wires=label)
            self.state = in_precision(after_gate(projector, self.state, self.wires))
        self._place = self._place + 1
        self.n_outcomes += 1
        self.postselects |= postselect >= 0
        self._is_fresh = False
        return outcome == 1

    def statistics(
        self, leaves: Sequence[Any], diff_method: str, *, is_single: bool
    ) -> list[Statistic]:
        """Measure; the values are exact, or with mid-circuit measurements those of one branch.

        Args:
            leaves: what the quantum function returned.
            diff_method: that of the QNode.
            is_single: whether only one branch, drawn at random, is run.
        """
        processes = [as_process(leaf, self) for leaf in leaves]
        with qml.QueuingManager.stop_recording():
            if self.n_outcomes:
                self._leave_other_branches()
            shots = 0 if self._shots is None else self._shots.is_here.size
            self.state = held(self.state, len(self.wires), shots, self._where)
        if self._shots is None:
            statistics = exact_statistics(_StateValues(self, is_single=is_single), processes)
        else:
            statistics = [
                replace(s, values=jax.tree.map(self._shots.here, s.values)) if s.is_of_shots else s
                for s in sampled_statistics(self, processes)
            ]
        obstacle = self._obstacle(diff_method, is_single=is_single)
        guard = lambda value: undifferentiable(value, f"{self._where}: {obstacle}")
        return [
            replace(s, values=jax.tree.map(guard, s.values)) if obstacle and s.is_measured else s
            for s in statistics
        ]

    def _obstacle(self, diff_method: str, *, is_single: bool) -> str:
        """Return why results have no derivative; empty where they have one."""
        methods = _EXACT_METHODS if self._shots is None else _METHODS_WITH_SHOTS
        methods = (*methods, *BY_DIFFERENCES)
        if diff_method not in methods:
            return (
                f"it is differentiated, and its diff_method is '{diff_method}'; on default.qubit "
                f"bellhop supports {', '.join(map(repr, methods))}"
                f"{'' if self._shots is None else ' with shots'}."
            )
        return OUTCOMES_ARE_DRAWN if is_single else ""

    def _leave_other_branches(self) -> None:
        # Bits that this branch through the circuit has no measurement for count once.
        is_branch = self._outcomes >> self._place.astype(jnp.uint32) == 0
        self.state = jnp.where(is_branch, self.state, 0)

    @property
    def groups(self) -> tuple[int, ...]:
        """The shots of each group, of which there is a mean."""
        return () if self._shots is None else self._shots.groups

    def sample(self, asked: Sequence[Asked]) -> list[Any]:
        """Return what is asked of one round of samples."""
        assert self._shots is not None
        return self._shots.sample(self.state, asked)

    def mean_of_groups(self, value: Any) -> Any:
        """Return what these outcomes add to the mean of a value of them, for each group."""
        assert self._shots is not None
        return self._shots.mean_of_groups(value, self.weight())

    def of_each_shot(self, value: Any) -> Any:
        """Return a value of these outcomes, a row for each shot."""
        assert self._shots is not None
        return jnp.broadcast_to(value, (*self._shots.is_here.shape, *value.shape))

    def weight(self) -> Any:
        """Return the probability of the outcomes."""
        return inner_product(self.state, self.state)


class _StateValues(ExactValues):
    """Exact values of a circuit on ``default.qubit``, computed from its state.

    Args:
        circuit: the circuit, at its end.
        is_single: whether only one branch, drawn at random, is run.
    """

    def __init__(self, circuit: Any, *, is_single: bool) -> None:
        self.where = circuit.where
        self._circuit = circuit
        self._is_single = is_single

    def weight(self) -> Take:
        return lambda _: self._circuit.weight()

    def expval(self, observable: Any) -> Take:
        return lambda _: inner_product(self._circuit.state, self._applied(observable))

    def variance(self, observable: Any) -> Make:
        def make(_: Any) -> Any:
            applied = self._applied(observable)
            mean = inner_product(self._circuit.state, applied)
            return of_moments(mean, inner_product(applied, applied))

        return make

    def probabilities(self, wires: Sequence[Any], rotations: Sequence[Any] = ()) -> Take:
        qubits = list(map(self._circuit.wires, wires))

        def take(_: Any) -> Any:
            before = self._circuit.state
            self._circuit.apply(rotations)
            after, self._circuit.state = self._circuit.state, before
            rows = by_outcome(after, qubits, len(self._circuit.wires))
            return jnp.sum(jnp.real(rows) ** 2 + jnp.imag(rows) ** 2, axis=1)

        return take

    def amplitudes(self) -> Take:
        return lambda _: self._circuit.state

    def state(self) -> Take:
        if not self._circuit.n_outcomes:
            return self.amplitudes()
        if not self._is_single:
            raise state_of_mixture(self.where)
        # All that is measured is divided by the probability of the branch later.
        return lambda _: self._circuit.state * jnp.sqrt(self._circuit.weight())

    def answers(self) -> None:
        pass

    def _applied(self, observable: Any) -> Any:
        """Return the state after an observable.

        PennyLane would diagonalize some, whose derivative is none where eigenvalues are equal.
        """
        return sum(
            jnp.real(coefficient) * self._product_applied(factors)
            for coefficient, factors in terms_of(observable, self.where)
        )

    def _product_applied(self, factors: Sequence[Factor]) -> Any:
        state = self._circuit.state
        for factor in factors:
            if isinstance(factor, Named):
                op = getattr(qml, factor.name)(factor.wire)
            else:
                op = qml.Hermitian(factor.matrix, wires=factor.wires)
            state = after_gate(op, state, self._circuit.wires)
        return state
