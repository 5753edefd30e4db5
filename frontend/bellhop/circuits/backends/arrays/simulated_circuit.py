"""Trace circuits on ``default.qubit`` and ``default.mixed`` gate by gate.

The state is an array of the program, and gates and measurements are JAX functions of the state.  So
such a circuit can be differentiated to any order, batched by ``jax.vmap``, and runs on the device
of the surrounding region.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from bellhop.circuits.backends.arrays.marginalized_outcomes import mark_summable, read_outcome
from bellhop.circuits.backends.arrays.pennylane_operations import has_traced_power, stop_recording
from bellhop.circuits.backends.arrays.reversible_loops import run_reversibly, should_reverse
from bellhop.circuits.backends.arrays.shots import BranchShots
from bellhop.circuits.backends.arrays.simulator_base import Simulator
from bellhop.circuits.gates.decompositions import (
    find_rotation,
    get_pennylane_decomposition,
    merge_preparations,
    unsupported_operation_error,
)
from bellhop.circuits.gates.operation_kind import OperationKind
from bellhop.circuits.ir.broadcasting import TracedRow
from bellhop.circuits.ir.device_measurements import SampleRequest
from bellhop.circuits.ir.diff_method import DiffMethod
from bellhop.circuits.ir.executors import Outcomes
from bellhop.circuits.ir.memory import MemoryCheck
from bellhop.circuits.ir.runtime_checks import FaultRecorder
from bellhop.circuits.ir.statistics import ExactValues, Statistic
from bellhop.circuits.ir.tangents import forbid_derivative
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.circuits.measure.measurement_registry import measure_results
from bellhop.circuits.measure.observables import MatrixFactor, make_factor_operation
from bellhop.circuits.passes.program_circuit import ProgramCircuit
from bellhop.control_flow.for_loop import run_for_loop, run_scan
from bellhop.control_flow.trace_body import TracedStep
from bellhop.errors import CompileError

# Exact methods; JAX computes the same derivatives through the state for all of them.
_EXACT_METHODS = (
    DiffMethod.BEST,
    "backprop",
    DiffMethod.ADJOINT,
    DiffMethod.PARAMETER_SHIFT,
    DiffMethod.HADAMARD,
)
_METHODS_WITH_SHOTS = (DiffMethod.BEST, DiffMethod.PARAMETER_SHIFT, DiffMethod.HADAMARD)

_SAMPLES_ERROR = (
    "the circuit is differentiated with respect to gate parameters and returns samples, counts or "
    "values of mid-circuit outcomes, which have no derivative. Return expval, var or probs."
)


class SimulatedCircuit(ProgramCircuit):
    """A circuit whose state is an array that the compiled program computes.

    An instance is one traced execution of the circuit, in one branch of mid-circuit outcomes. A
    measurement projects the state without normalizing it, so the squared norm (or trace) of the
    state is the probability of the outcomes.

    Args:
        simulator: prepares the state, applies gates to it and measures it.
        rows: selects one batch row of operands, by a traced index.
        faults: records run-time errors of operations.
        outcomes: traced unsigned integer, a bit for each mid-circuit outcome of the branch.
        shots: the shots that are assigned to this branch; None without shots.
        box: lines of text in the box of the circuit in drawings of the program.

    Attributes:
        state: the state after the operations so far, without pending operations; not normalized.
        postselects: whether a mid-circuit measurement so far postselects.
        unbounded_outcomes: the error to raise if outcomes remain in a loop with a dynamic trip
            count; None without such outcomes.
    """

    def __init__(
        self,
        simulator: Simulator,
        rows: TracedRow,
        faults: FaultRecorder,
        outcomes: Any,
        shots: BranchShots | None,
        box: tuple[str, ...],
    ) -> None:
        super().__init__(simulator.wires, simulator.where, rows, faults)
        self._shots = shots
        self._box = box
        self.simulator = simulator
        self.can_apply_observables = not simulator.is_mixed
        self.state = simulator.prepare()
        self._is_fresh = True
        # Operations that are not applied yet, so that they can be fused.
        self._pending: list[Any] = []
        self.outcomes = outcomes
        # Number of mid-circuit measurements so far, the index of the next outcome's bit.
        self._position: Any = jnp.int32(0)
        self.postselects = False
        # The error to raise if outcomes remain in a loop with a dynamic trip count.
        self.unbounded_outcomes: CompileError | None = None

    @property
    def _gate_state(self) -> Any:
        """The values that gates change: state, index of the next outcome, first fault."""
        return self.simulator.canonicalize_carry(self.state), self._position, self.fault

    @_gate_state.setter
    def _gate_state(self, now: Any) -> None:
        self.state, self._position, self.fault = now
        self._is_fresh = False

    def _resume(self, now: Any) -> None:
        """Continue after a loop or conditional, whose final gate state is `now`.

        The state is tagged, so that `sum_over_outcomes` may sum over mid-circuit outcomes here.
        """
        state, *others = now
        super()._resume((jax.tree.map(mark_summable, state), *others))

    def _run_on_gate_state(
        self, before: Any, function: Callable[..., Any], *args: Any
    ) -> tuple[Any, ...]:
        """Trace a loop's body or a branch, starting from the gate state `before`.

        Args:
            before: the gate state (state, index of the next outcome, first fault) at the beginning.
            function: applies gates to this circuit, and returns a tuple of results.
            *args: the arguments of `function`.

        Returns:
            the gate state at the end, with the state in the layout of `before`, followed by the
            results of `function`. The circuit's own state is unchanged.
        """
        now, *results = super()._run_on_gate_state(before, function, *args)
        state, *others = now
        return ((self.simulator.canonicalize_carry(state, before[0]), *others), *results)

    def _run_iterations(
        self, n_iterations: Any, step: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Run a for loop of gates, whose reverse mode recomputes large states.

        Recomputation (`run_reversibly`) needs a static trip count and orthogonal iterations;
        otherwise reverse mode saves the state of each iteration.

        Args:
            n_iterations: trip count, an ``int`` or a tracer.
            step: maps the carried values and the iteration's index to the next carried values.
            carried: the initial carried values, the gate state first.

        Returns:
            the final carried values.
        """
        outer, self.simulator.is_orthogonal = self.simulator.is_orthogonal, True

        def run(traced: TracedStep, carried: tuple[Any, ...], count: int) -> tuple[Any, ...]:
            """Run a loop with a static trip count, by `run_reversibly` or by `lax.scan`."""
            if self.simulator.is_orthogonal and should_reverse(traced, carried, count):
                return run_reversibly(traced, carried, count)
            return run_scan(traced, carried, count)

        try:
            return run_for_loop(n_iterations, step, carried, run)
        finally:
            self.simulator.is_orthogonal &= outer

    def apply(self, operations: Sequence[Any]) -> None:
        """Apply operations to the state, in order; neighboring gates are fused.

        At the beginning of the circuit, state preparations of several wires are merged to one.
        """
        super().apply(merge_preparations(operations) if self._is_fresh else operations)

    def _flush(self) -> None:
        """Apply the pending operations to the state, fused where possible."""
        run, self._pending = self._pending, []
        if run:
            self.state = jax.tree.map(
                mark_summable, self.simulator.apply_operations(run, self.state)
            )

    def _apply_gate(self, op: Any, depth: int) -> None:
        """Apply one operation: prepare a state, defer a supported operation, or decompose.

        Supported operations are appended to the pending operations, which `_flush` applies. A
        preparation as the first operation replaces the state.

        Args:
            depth: number of decompositions from which `op` results; 0 for a user's operation.

        Raises:
            CompileError: if the operation is not supported and has no decomposition.
        """
        op = find_rotation(op) or op
        is_preparation = OperationKind.classify(op).is_pure_preparation
        if self._is_fresh and is_preparation and not any(map(is_dynamic, op.wires)):
            self.state = self.simulator.prepare(op)
        elif self.simulator.can_apply(op):
            self._pending.append(op)
        else:
            parts = get_pennylane_decomposition(op, depth, of_base=has_traced_power(op))
            if parts is None:
                raise unsupported_operation_error(op, self.where)
            for part in parts:
                self._apply(part, depth + 1)
            return
        self._is_fresh = False

    def _measure_wire(self, label: Any, *, reset: bool, postselect: int) -> Any:
        """Project a wire on its outcome in this branch, and return the outcome.

        The outcome, a traced boolean scalar, is a bit of the branch's `outcomes`, or the
        postselected value. The state is not normalized.

        Args:
            label: wire label, or a traced qubit index.
            reset: whether the wire is set to zero afterwards.
            postselect: 0 or 1 to postselect this outcome; negative without postselection.
        """
        if postselect >= 0:
            outcome = jnp.uint32(postselect)
        else:
            outcome, self._position = read_outcome(self.outcomes, self._position)
            self.n_outcomes += 1
        one, zero = outcome.astype(float), (1 - outcome).astype(float)
        # Projector on the outcome, followed by a flip to zero with `reset`.
        rows = [[zero, one], [0, 0]] if reset else [[zero, 0], [0, one]]
        with stop_recording():
            self._pending.append(make_factor_operation(MatrixFactor((label,), jnp.array(rows))))
            self._flush()
        self.postselects |= postselect >= 0
        self._is_fresh = False
        return outcome == 1

    def _raise_or_defer(self, error: CompileError) -> None:
        """Raise an error, or store it if the simulator can represent mixed states.

        A mixed state can be summed over mid-circuit outcomes in each iteration. So the caller
        raises the error, which is stored in `unbounded_outcomes`, only if outcomes remain after
        the circuit is rewritten in this way.

        Args:
            error: the error for outcomes in a loop with a dynamic trip count.
        """
        if not self.simulator.is_mixed:
            raise error
        # A mixed state is summed over outcomes that only one iteration needs.
        self.unbounded_outcomes = self.unbounded_outcomes or error

    def measure_statistics(
        self, leaves: Sequence[Any], diff_method: str, *, is_single: bool
    ) -> list[Statistic]:
        """Measure all return values of the quantum function after the last gate.

        A branch is one combination of mid-circuit outcomes. This also sets the state to zero in
        branches that repeat another branch.

        Args:
            leaves: the leaves of the quantum function's result, such as measurement processes.
            diff_method: the QNode's ``diff_method``.
            is_single: whether only one branch, drawn at random, is executed.

        Returns:
            a `Statistic` for each leaf: its traced values, and a function from them to the result.
            With several branches, the values are the contribution of this branch to a sum.
        """
        with stop_recording():
            if self.n_outcomes:
                self._zero_other_branches()
            shots = 0 if self._shots is None else self._shots.is_in_branch.size
            qubits = len(self.simulator.wires)
            mark = lambda x: MemoryCheck(self.where).guard_batched_state(
                x, qubits, self.simulator.axes_per_qubit, shots, self._box
            )
            self.state = jax.tree.map(mark, self.state)
        if self._shots is None:
            statistics = measure_results(leaves, self, _StateEvaluator(self, is_single=is_single))
        else:
            statistics = [
                s.map_values(self._shots.mask_other_branches) if s.is_per_shot else s
                for s in measure_results(leaves, self)
            ]
        obstacle = self._find_obstacle(diff_method, is_single=is_single)
        return [self._guard(statistic, obstacle, is_single) for statistic in statistics]

    def _guard(self, statistic: Statistic, obstacle: str, is_single: bool) -> Statistic:
        """Make a result raise an error on differentiation, if it has no derivative.

        In a circuit that is executed once with random mid-circuit outcomes, each result raises
        `obstacle`. Otherwise, values of shots raise the error for samples, and measured results
        raise `obstacle` if it is not empty. All other results are returned unchanged.

        Args:
            statistic: the traced values of one result.
            obstacle: why results have no derivative, the text of the error; empty if they have one.
            is_single: whether the circuit is executed once, with random mid-circuit outcomes.
        """
        is_drawn = statistic.is_per_shot or (is_single and not statistic.is_measured)
        reason = _SAMPLES_ERROR if is_drawn and not is_single else obstacle
        if not reason or not (is_drawn or statistic.is_measured):
            return statistic
        by = self.compute_probability() if is_drawn else None
        guard = lambda value: forbid_derivative(value, f"{self.where}: {reason}", by=by)
        return statistic.map_values(guard)

    def _find_obstacle(self, diff_method: str, *, is_single: bool) -> str:
        """Return why results have no derivative, as error text; empty if they have one.

        Args:
            diff_method: the QNode's ``diff_method``.
            is_single: whether the circuit is executed once, with random mid-circuit outcomes.
        """
        methods = _EXACT_METHODS if self._shots is None else _METHODS_WITH_SHOTS
        methods = (*methods, DiffMethod.FINITE_DIFFERENCES, DiffMethod.SPSA)
        if diff_method not in methods:
            return (
                f"the circuit is differentiated with diff_method='{diff_method}', which is not "
                "supported on "
                f"{self.simulator.name}{'' if self._shots is None else ' with shots'}, expected "
                f"{', '.join(map(repr, methods))}. Use diff_method='best'."
            )
        return Outcomes.DRAWN_ONCE_ERROR if is_single else ""

    def _zero_other_branches(self) -> None:
        """Set the state to zero if this branch repeats another branch.

        A bit of `outcomes` that no measurement read does not matter. So a branch in which such a
        bit is one repeats the branch in which it is zero.
        """
        # Branches that differ only in unused bits are the same; count the one with zeros.
        is_branch = self.outcomes >> self._position.astype(jnp.uint32) == 0
        self.state = jax.tree.map(lambda x: jnp.where(is_branch, x, 0), self.state)

    @property
    def groups(self) -> tuple[int, ...]:
        """The number of shots of each group over which results are averaged."""
        return () if self._shots is None else self._shots.groups

    def sample(self, requests: Sequence[SampleRequest]) -> list[Any]:
        """Sample the final state once for all shots, and return an array for each request.

        The requests and the arrays are as in `BranchShots.sample`.
        """
        assert self._shots is not None
        return self._shots.sample(self.simulator, self.state, requests)

    def average_over_groups(self, value: Any) -> Any:
        """Multiply a value by the fraction of each group's shots that are in this branch.

        A branch is one combination of mid-circuit outcomes. The result is an array ``[groups,
        *value.shape]``; its sum over all branches is the mean of the value in each group of shots.
        """
        assert self._shots is not None
        return self._shots.average_over_groups(value, self.compute_probability())

    def broadcast_to_shots(self, value: Any) -> Any:
        """Repeat a value, which all shots share, to an array ``[shots, *shape]``."""
        assert self._shots is not None
        return jnp.broadcast_to(value, (*self._shots.is_in_branch.shape, *value.shape))

    def compute_probability(self) -> Any:
        """Return the probability of this branch's outcomes."""
        return self.simulator.compute_probability(self.state)


class _StateEvaluator(ExactValues):
    """Computes expectation values, probabilities etc. from the array of the final state.

    Implements the interface `ExactValues` of measurement code. Each ``request_...`` method returns
    a function with an unused argument, which returns the value.

    Args:
        circuit: the circuit, after all gates.
        is_single: whether only one branch, drawn at random, is executed.
    """

    def __init__(self, circuit: SimulatedCircuit, *, is_single: bool) -> None:
        self.where = circuit.where
        self._circuit = circuit
        self._simulator = circuit.simulator
        self._is_mixture = circuit.has_mid_circuit and not is_single
        self._is_divided = is_single

    def request_probability(self) -> Callable[[Any], Any]:
        """Return ``_ -> scalar``, the probability of the mid-circuit outcomes."""
        return lambda _: self._circuit.compute_probability()

    def request_expval(self, observable: Any) -> Callable[[Any], Any]:
        """Return ``_ -> scalar``, the expectation value, not divided by the probability."""
        return lambda _: self._compute_moments(observable, has_square=False)[0]

    def request_variance(self, observable: Any) -> Callable[[Any], Statistic]:
        """Return ``_ -> Statistic`` of the variance, from the first and second moment."""
        return lambda _: Statistic.from_moments(*self._compute_moments(observable))

    def _compute_moments(self, observable: Any, **options: Any) -> Any:
        """Return the first and second moment of an observable (`Simulator.compute_moments`)."""
        return self._simulator.compute_moments(self._circuit.state, observable, **options)

    def request_probabilities(
        self, wires: Sequence[Any], rotations: Sequence[Any] = ()
    ) -> Callable[[Any], Any]:
        """Return a function that computes outcome probabilities of wires, after some gates.

        Args:
            wires: wire labels.
            rotations: gates that are applied before measuring; the circuit's state stays unchanged.

        Returns:
            a function with an unused argument, which returns an array ``[2**wires]``.
        """
        qubits = list(map(self._circuit.wires, wires))

        def take(_: Any) -> Any:
            """Apply the rotations, and return the probabilities; then restore the state."""
            before = self._circuit.state
            self._circuit.apply(rotations)
            after, self._circuit.state = self._circuit.state, before
            return self._simulator.compute_probabilities(after, qubits)

        return take

    def request_density_matrix(self, qubits: Sequence[int], name: str) -> Callable[[Any], Any]:
        """Return ``_ -> matrix``, the reduced density matrix of `qubits`."""
        return lambda _: self._simulator.compute_density_matrix(self._circuit.state, qubits)

    def request_state(self, name: str) -> Callable[[Any], Any]:
        """Return ``_ -> array``, the result of ``qml.state``; `name` is for errors."""
        state = self._simulator.to_state_result(
            self._circuit.state, name, is_mixture=self._is_mixture, is_divided=self._is_divided
        )
        return lambda _: state

    def compute(self) -> None:
        """Do nothing: the functions of all requests compute their values."""
        pass
