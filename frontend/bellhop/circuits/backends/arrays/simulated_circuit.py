"""Circuits on ``default.qubit`` and ``default.mixed``: traced into the program, gate by gate.

The state is an array of the program, and gates and measurements are functions of it.  So such a
circuit differentiates to any order, is batched by ``jax.vmap``, and runs on whatever device the
region around it runs on.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml
from pennylane.operation import StatePrepBase

from bellhop.circuits.backends.arrays.marginalized_outcomes import outcome_of, summable
from bellhop.circuits.backends.arrays.pure_simulator import has_computed_power
from bellhop.circuits.backends.arrays.reversible_loops import is_reversible, repeat_reversibly
from bellhop.circuits.backends.arrays.shots import ShotsOfBranch
from bellhop.circuits.backends.arrays.simulator_base import Simulator
from bellhop.circuits.gates.decompositions import (
    DECOMPOSITION_DEPTH,
    decomposition_inside,
    decomposition_of,
    not_applied,
    prepared_together,
    rotation_of,
)
from bellhop.circuits.ir.broadcasting import TracedRow
from bellhop.circuits.ir.device_measurements import SampleRequest
from bellhop.circuits.ir.diff_method import ADJOINT, BEST, BY_DIFFERENCES, HADAMARD, PARAMETER_SHIFT
from bellhop.circuits.ir.memory import held
from bellhop.circuits.ir.randomness import OUTCOMES_ARE_DRAWN
from bellhop.circuits.ir.runtime_checks import Faults
from bellhop.circuits.ir.statistics import ExactValues, Make, Statistic, Take
from bellhop.circuits.ir.tangents import undifferentiable
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.circuits.measure.measurement_registry import measure_results
from bellhop.circuits.passes.program_circuit import ProgramCircuit
from bellhop.control_flow.for_loop import run_for_loop, run_scan
from bellhop.control_flow.trace_body import TracedStep
from bellhop.errors import CompileError

# Exact methods, all of which have the values that JAX computes through the state.
_EXACT_METHODS = (BEST, "backprop", ADJOINT, PARAMETER_SHIFT, HADAMARD)
_METHODS_WITH_SHOTS = (BEST, PARAMETER_SHIFT, HADAMARD)

_DRAWN = (
    "it returns sample, counts or outcomes that are drawn, and the gates that they are drawn by "
    "are differentiated; these have no derivative. Return expval, var or probs."
)


class SimulatedCircuit(ProgramCircuit):
    """A circuit whose state is an array of the program.

    Args:
        simulator: what operations do to that.
        outcomes: the outcomes of its mid-circuit measurements, a bit for each.
        shots: the shots of the circuit that have these outcomes; None without shots.
        box: what pictures say of it.

    A measurement projects the state and does not normalize it, so that its weight is the
    probability of these outcomes.
    """

    def __init__(
        self,
        simulator: Simulator,
        rows: TracedRow,
        faults: Faults,
        outcomes: Any,
        shots: ShotsOfBranch | None,
        box: tuple[str, ...],
    ) -> None:
        super().__init__(simulator.wires, simulator.where, rows, faults)
        self._shots = shots
        self._box = box
        self.simulator = simulator
        self.applies_observables = not simulator.holds_mixtures
        self.state = simulator.prepared()
        self._is_fresh = True
        # Operations that wait for those that they are merged with.
        self._run: list[Any] = []
        self.outcomes = outcomes
        # How many mid-circuit measurements there were so far.
        self._place: Any = jnp.int32(0)
        self.postselects = False
        # Why there must be none whose number is not known.
        self.uncounted: CompileError | None = None

    @property
    def _now(self) -> Any:
        return self.simulator.as_carried(self.state), self._place, self.fault

    @_now.setter
    def _now(self, now: Any) -> None:
        self.state, self._place, self.fault = now
        self._is_fresh = False

    def _go_on(self, now: Any) -> None:
        state, *others = now
        super()._go_on((jax.tree.map(summable, state), *others))

    def _after(self, before: Any, function: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
        now, *results = super()._after(before, function, *args)
        state, *others = now
        return ((self.simulator.as_carried(state, before[0]), *others), *results)

    def _repeat(
        self, n_iterations: Any, step: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        outer, self.simulator.is_orthogonal = self.simulator.is_orthogonal, True

        def run(traced: TracedStep, carried: tuple[Any, ...], count: int) -> tuple[Any, ...]:
            if self.simulator.is_orthogonal and is_reversible(traced, carried, count):
                return repeat_reversibly(traced, carried, count)
            return run_scan(traced, carried, count)

        try:
            return run_for_loop(n_iterations, step, carried, run)
        finally:
            self.simulator.is_orthogonal &= outer

    def apply(self, operations: Sequence[Any]) -> None:
        """Apply operations to the state, in order."""
        super().apply(prepared_together(operations) if self._is_fresh else operations)

    def _flush(self) -> None:
        run, self._run = self._run, []
        if run:
            self.state = jax.tree.map(summable, self.simulator.after(run, self.state))

    def _apply_gate(self, op: Any, depth: int) -> None:
        op = rotation_of(op) or op
        is_preparation = isinstance(op, StatePrepBase) and not any(map(is_dynamic, op.wires))
        if self._is_fresh and is_preparation:
            self.state = self.simulator.prepared(op)
        elif self.simulator.applies(op):
            self._run.append(op)
        elif depth < DECOMPOSITION_DEPTH and has_computed_power(op):
            for part in decomposition_inside(op):
                self._apply(part, depth + 1)
            return
        elif depth < DECOMPOSITION_DEPTH and op.has_decomposition:
            for part in decomposition_of(op):
                self._apply(part, depth + 1)
            return
        else:
            raise not_applied(op, self.where)
        self._is_fresh = False

    def _measured(self, label: Any, *, reset: bool, postselect: int) -> Any:
        """Project a wire on its outcome, and return that."""
        if postselect >= 0:
            outcome = jnp.uint32(postselect)
        else:
            outcome, self._place = outcome_of(self.outcomes, self._place)
            self.n_outcomes += 1
        one, zero = outcome.astype(float), (1 - outcome).astype(float)
        # To the outcome, or with a reset to zero.
        rows = [[zero, one], [0, 0]] if reset else [[zero, 0], [0, one]]
        with qml.QueuingManager.stop_recording():
            self._run.append(qml.Hermitian(jnp.array(rows), wires=label))
            self._flush()
        self.postselects |= postselect >= 0
        self._is_fresh = False
        return outcome == 1

    def _refuse(self, error: CompileError) -> None:
        if not self.simulator.holds_mixtures:
            raise error
        # Over these it sums, where they are needed in an iteration alone.
        self.uncounted = self.uncounted or error

    def statistics(
        self, leaves: Sequence[Any], diff_method: str, *, is_single: bool
    ) -> list[Statistic]:
        """Measure; the values are exact, or with mid-circuit measurements those of one branch.

        Args:
            leaves: what the quantum function returned.
            diff_method: that of the QNode.
            is_single: whether only one branch, drawn at random, is run.
        """
        with qml.QueuingManager.stop_recording():
            if self.n_outcomes:
                self._leave_other_branches()
            shots = 0 if self._shots is None else self._shots.is_here.size
            qubits = len(self.simulator.wires)
            mark = lambda x: held(x, qubits, self.simulator.sides, shots, self.where, self._box)
            self.state = jax.tree.map(mark, self.state)
        if self._shots is None:
            statistics = measure_results(leaves, self, _StateValues(self, is_single=is_single))
        else:
            statistics = [
                s.changed(self._shots.here) if s.is_of_shots else s
                for s in measure_results(leaves, self)
            ]
        obstacle = self._obstacle(diff_method, is_single=is_single)
        return [self._guarded(statistic, obstacle, is_single) for statistic in statistics]

    def _guarded(self, statistic: Statistic, obstacle: str, is_single: bool) -> Statistic:
        """Return a statistic whose derivative is an error where it would be wrong.

        What was drawn, or is computed of that, knows nothing of what it was drawn by.
        """
        is_drawn = statistic.is_of_shots or (is_single and not statistic.is_measured)
        reason = _DRAWN if is_drawn and not is_single else obstacle
        if not reason or not (is_drawn or statistic.is_measured):
            return statistic
        by = self.weight() if is_drawn else None
        guard = lambda value: undifferentiable(value, f"{self.where}: {reason}", by=by)
        return statistic.changed(guard)

    def _obstacle(self, diff_method: str, *, is_single: bool) -> str:
        """Return why results have no derivative; empty where they have one."""
        methods = _EXACT_METHODS if self._shots is None else _METHODS_WITH_SHOTS
        methods = (*methods, *BY_DIFFERENCES)
        if diff_method not in methods:
            return (
                f"it is differentiated, and its diff_method is '{diff_method}'; on "
                f"{self.simulator.name} bellhop supports {', '.join(map(repr, methods))}"
                f"{'' if self._shots is None else ' with shots'}."
            )
        return OUTCOMES_ARE_DRAWN if is_single else ""

    def _leave_other_branches(self) -> None:
        # Bits that this branch through the circuit has no measurement for count once.
        is_branch = self.outcomes >> self._place.astype(jnp.uint32) == 0
        self.state = jax.tree.map(lambda x: jnp.where(is_branch, x, 0), self.state)

    @property
    def groups(self) -> tuple[int, ...]:
        """The shots of each group, of which there is a mean."""
        return () if self._shots is None else self._shots.groups

    def sample(self, asked: Sequence[SampleRequest]) -> list[Any]:
        """Return what is asked of one round of samples."""
        assert self._shots is not None
        return self._shots.sample(self.simulator, self.state, asked)

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
        return self.simulator.weight(self.state)


class _StateValues(ExactValues):
    """Exact values of a circuit, computed from its state.

    Args:
        circuit: the circuit, at its end.
        is_single: whether only one branch, drawn at random, is run.
    """

    def __init__(self, circuit: SimulatedCircuit, *, is_single: bool) -> None:
        self.where = circuit.where
        self._circuit = circuit
        self._simulator = circuit.simulator
        self._is_mixture = circuit.has_mid_circuit and not is_single
        self._is_divided = is_single

    def weight(self) -> Take:
        return lambda _: self._circuit.weight()

    def expval(self, observable: Any) -> Take:
        return lambda _: self._moments(observable, has_square=False)[0]

    def variance(self, observable: Any) -> Make:
        return lambda _: Statistic.from_moments(*self._moments(observable))

    def _moments(self, observable: Any, **options: Any) -> Any:
        return self._simulator.moments(self._circuit.state, observable, **options)

    def probabilities(self, wires: Sequence[Any], rotations: Sequence[Any] = ()) -> Take:
        qubits = list(map(self._circuit.wires, wires))

        def take(_: Any) -> Any:
            before = self._circuit.state
            self._circuit.apply(rotations)
            after, self._circuit.state = self._circuit.state, before
            return self._simulator.probabilities(after, qubits)

        return take

    def density_matrix(self, qubits: Sequence[int], name: str) -> Take:
        return lambda _: self._simulator.density_matrix(self._circuit.state, qubits)

    def state(self, name: str) -> Take:
        state = self._simulator.state(
            self._circuit.state, is_mixture=self._is_mixture, is_divided=self._is_divided
        )
        return lambda _: state

    def compute(self) -> None:
        pass
