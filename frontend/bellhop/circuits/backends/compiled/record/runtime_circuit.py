"""A circuit while its quantum function is traced: its loops and conditionals.

A loop whose body only applies gates becomes two equations.  The first computes the angles of all
iterations as one vector, and the second is one call of the runtime, which applies the gates of all
iterations.  ``for_loop(0, 1000)(lambda i: qml.RX(x * i, 0))()`` is traced to ::

    angles = mul x [0. 1. 2. ...]
    state = quantum_gates[RX] state angles 0 [] 1000

(A shorter loop is unrolled, see ``loop_unrolling``.)  A loop whose body has other effects, such as
``bellhop.debug.print("{}", i)``, becomes a ``scan`` that carries the state.  It returns the angles
of all iterations, by which the measurement is differentiated::

    state offset angles = scan[
      jaxpr={ lambda x; state offset i. let
          bellhop_print i
          angle = mul x i
          state = quantum_gates[RX] state [angle] offset []
          offset = add offset 1
        in (state, offset, [angle]) }
      length=1000
    ] x state 0 [0 1 2 ...]

A conditional becomes a ``cond``.  Its branches return vectors of parameters of the same length,
padded with zeros.  ``cond(x > 0, lambda: qml.RX(x, 0), lambda: qml.X(0))()`` is traced to ::

    state angles = cond[
      branches=(
        { lambda x offset state. let s = quantum_gates[RX] state [x] offset [] in (s, [x]) }
        { lambda x offset state. let s = quantum_gates[X] state [] offset [] in (s, [0.0]) }
      )
    ] index x offset state
"""

import copy
import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.base.types import Handle, Operand, Wire
from bellhop.circuits.backends.choose.choose_derivative import CircuitFacts
from bellhop.circuits.backends.compiled.differentiable.differentiation import Differentiation
from bellhop.circuits.backends.compiled.outcomes.grouped_shots import mask_other_shots
from bellhop.circuits.backends.compiled.outcomes.one_shot_shadows import sample_one_shot_shadow
from bellhop.circuits.backends.compiled.record.gate_sequence import GateSequence, RepeatedSequence
from bellhop.circuits.backends.compiled.record.gates import GateList
from bellhop.circuits.backends.compiled.record.loop_boundaries import MergedLoop, merge_iterations
from bellhop.circuits.backends.compiled.record.loop_precompute import (
    consume_iterations,
    consume_while_iterations,
    stack_iterations,
)
from bellhop.circuits.backends.compiled.record.loop_unrolling import unroll_loop
from bellhop.circuits.backends.compiled.record.recorded_gates import GateEquationRecorder
from bellhop.circuits.backends.compiled.record.traced_bodies import TracedLoop, record_branches
from bellhop.circuits.gates.concretization_errors import explain_concretization
from bellhop.circuits.gates.decompositions import merge_preparations
from bellhop.circuits.ir.broadcasting import TracedRow
from bellhop.circuits.ir.device_measurements import Frequencies, SampleRequest, ShadowSnapshots
from bellhop.circuits.ir.device_spec import DeviceSpec, GateSet
from bellhop.circuits.ir.diff_method import DiffMethod
from bellhop.circuits.ir.execution_plan import ExecutionPlan
from bellhop.circuits.ir.executors import Outcomes
from bellhop.circuits.ir.gate_jaxpr import ForLoop
from bellhop.circuits.ir.measurement_request import MeasurementRequest
from bellhop.circuits.ir.memory import MemoryCheck
from bellhop.circuits.ir.precision import Precision
from bellhop.circuits.ir.statistics import Statistic
from bellhop.circuits.ir.wires import WireMap, is_dynamic
from bellhop.circuits.passes.backend_circuit import BackendCircuit
from bellhop.tracing.current_circuit import Branches

# Methods that differentiate the outcomes of an execution by the score function.
_EXACT_METHODS = (
    DiffMethod.ADJOINT,
    DiffMethod.BEST,
    DiffMethod.PARAMETER_SHIFT,
    DiffMethod.LIKELIHOOD_RATIO,
)


class RuntimeCircuit(BackendCircuit):
    """A circuit that the runtime executes, recorded as equations of the program.

    Made for each trace of a QNode call. A loop whose body only applies gates and has no side
    effects becomes one call of the runtime if its trip count is static, else one call per block of
    iterations.

    Args:
        handle: the handle of a fresh state.
        device: the device, for errors and for the measurements that it supports.
        gate_set: the gates that the device applies; others are decomposed.
        wires: maps wire labels to qubit indices.
        where: the QNode's name and line, which begin error messages.
        plan: how the circuit is executed, as far as its device and settings decide.
        rows: the batch row whose gate parameters are used, by a traced index (broadcasting).

    Attributes:
        recorder: the recorder of the equations so far.
        postselects: whether a mid-circuit measurement so far postselects.
        groups: for each group of shots over which means are taken, the number of its shots; set
            before the circuit is measured.
        deferred_qubits: the qubits whose mid-circuit measurements are deferred, set after the gates
            of the quantum function.
        changes_deferred: whether, after ``deferred_qubits`` was set, a gate was applied to one of
            these qubits, such as the change of basis of a final measurement. The deferral is then
            wrong.
    """

    def __init__(
        self,
        handle: Handle,
        device: DeviceSpec,
        gate_set: GateSet,
        wires: WireMap,
        where: str,
        plan: ExecutionPlan,
        rows: TracedRow,
    ) -> None:
        super().__init__(wires, where, rows)
        self.recorder = GateEquationRecorder(
            handle, device.passes, keeps_matrices=gate_set.keeps_matrices
        )
        self.device = device
        self.gate_set = gate_set
        self._plan = plan
        self.postselects = False
        self.groups: tuple[int, ...] = ()
        self.deferred_qubits: Collection[int] = ()
        self.changes_deferred = False
        self._runs_in_engine = device.engine

    @property
    def plan(self) -> ExecutionPlan:
        """How the circuit is executed, with the current `treatment` of random outcomes.

        If shots with equal outcomes share a run, the derivative method is the likelihood ratio.
        """
        plan = replace(self._plan, outcomes=self.treatment)
        if self.treatment is Outcomes.SHARED_RUNS:
            return replace(plan, diff_method=DiffMethod.LIKELIHOOD_RATIO)
        return plan

    def fork(self, treatment: Outcomes) -> "RuntimeCircuit":
        """Return a copy with the same gates, to be measured with another treatment of outcomes.

        Measuring the copy leaves this circuit unchanged.

        Args:
            treatment: how the copy treats random outcomes, for instance one run for each shot.
        """
        other = copy.copy(self)
        other.recorder = copy.copy(self.recorder)
        other.treatment = treatment
        return other

    def apply(self, operations: Sequence[Any]) -> None:
        """Convert operations to gates and record them; apply control flow among them."""
        if self.deferred_qubits:
            self.changes_deferred |= any(
                is_dynamic(wire) or self.wires(wire) in self.deferred_qubits
                for op in operations
                for wire in op.wires
            )
        for run in self._build_gate_list(operations).sequences:
            if isinstance(run, GateSequence):
                self.recorder.add_sequence(run)
            else:
                self.apply_control_flow(run)

    @property
    def unrolls_nests(self) -> bool:
        """Whether nested loops with few gates are unrolled; False with compiler passes."""
        return not self.device.passes

    def try_apply_gates(self, operations: Sequence[Any]) -> bool:
        """Record operations, but only if they are few gates without control flow.

        At most ``ForLoop.MAX_UNROLLED_GATES`` are few.

        Returns:
            whether the operations were recorded; if not, none was.
        """
        gates = self._build_gate_list(operations, ForLoop.MAX_UNROLLED_GATES)
        is_straight = gates.is_straight(ForLoop.MAX_UNROLLED_GATES)
        for run in gates.sequences if is_straight else ():
            assert isinstance(run, GateSequence)
            self.recorder.add_sequence(run)
        return is_straight

    def _build_gate_list(self, operations: Sequence[Any], most: int | None = None) -> GateList:
        """Convert operations to gate sequences and control flow, without recording them.

        Args:
            operations: PennyLane operations.
            most: stop once there are more gates than this, or control flow; None to convert all.
        """
        gates = GateList(
            self.gate_set,
            self.wires,
            self.where,
            rows=self.rows,
            is_first=self.recorder.is_fresh,
            find_site=self.find_site,
            by_differences=DiffMethod.has_differences(self._plan.diff_method),
            in_engine=self.device.has_engine_of_any_size,
        )
        if self.recorder.is_fresh and self.gate_set.can_apply("StatePrep"):
            operations = merge_preparations(operations)
        try:
            for op in operations:
                gates.add(op)
                if most is not None and not gates.is_straight(most):
                    break
        except Exception:
            # Entered only for the operation that fails: entering them for each gate takes time.
            with self.error_location(op), explain_concretization(op, self.where):
                raise
        return gates

    def for_loop(
        self,
        n_iterations: int | Operand,
        body: Callable[..., Any],
        carried: tuple[Any, ...],
        *,
        can_unroll: bool = False,
    ) -> tuple[Any, ...]:
        """Record a for loop whose body applies gates; return the carried values after it.

        Args:
            n_iterations: the trip count, an ``int``, or a tracer if it is dynamic.
            body: ``(carried, index) -> carried``, which applies the gates of one iteration.
            carried: the carried values of the first iteration, a tuple of arrays.
            can_unroll: not used.
        """
        if isinstance(n_iterations, int):
            return self._run_static_loop(n_iterations, body, carried)
        return self._run_dynamic_loop(
            TracedLoop.trace(self.recorder, "for_loop", body, carried, jnp.asarray(0)),
            lambda step, now: jax.lax.fori_loop(0, n_iterations, lambda i, x: step(x, i)[0], now),
            functools.partial(consume_iterations, n_iterations=n_iterations),
        )

    def while_loop(
        self, condition: Callable[..., Any], body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Record a while loop whose body applies gates; return the final carried values.

        Args:
            condition: ``carried -> bool scalar``, whether another iteration follows.
            body: ``carried -> carried``, which applies the gates of one iteration.
            carried: the carried values of the first iteration, a tuple of arrays.
        """
        goes_on = lambda now: condition(now[0])
        return self._run_dynamic_loop(
            TracedLoop.trace(self.recorder, "while_loop", body, carried),
            lambda step, now: jax.lax.while_loop(goes_on, lambda x: step(x)[0], now),
            functools.partial(consume_while_iterations, condition),
        )

    def _run_dynamic_loop(
        self, loop: TracedLoop, run: Callable[..., Any], run_in_blocks: Callable[..., Any]
    ) -> tuple[Any, ...]:
        """Record a loop with a dynamic trip count; return the carried values after it.

        If the body's gates can be separated from its classical computation, the gates of many
        iterations (a block) are applied by one call.

        Args:
            loop: the loop, of which one iteration was traced.
            run: ``(step, first) -> last``, called if the gates cannot be separated. It adds a loop
                in which ``step`` runs an iteration with its gates. ``first`` and ``last`` are pairs
                of carried values and circuit state, before and after the loop.
            run_in_blocks: ``(body, carried, use, state) -> last``, called if the gates can be
                separated. It adds a loop in which ``body`` runs the classical computation of an
                iteration, and ``use`` applies the gates of a block of iterations.
        """
        if loop.gates is None:
            return self._run_traced_loop(loop, functools.partial(run, loop.step))
        computed = loop.make_classical_body(self.recorder.get_unbound_carry())
        use, state = self.recorder.make_block_consumer(loop.gates)
        return self._resume(
            run_in_blocks(body=computed, carried=loop.carried, use=use, state=state)
        )

    def _run_static_loop(
        self, n_iterations: int, body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Record a for loop with a static trip count; return the carried values after it.

        A loop whose body only applies gates becomes one equation, which repeats the gates. If it is
        short with static wires, and no compiler pass needs the loop, it is unrolled. Any other loop
        becomes a ``scan``.

        Args:
            n_iterations: the trip count.
            body: ``(carried, index) -> carried``, which applies the gates of one iteration.
            carried: the carried values of the first iteration, a tuple of arrays.
        """
        recorder = self.recorder
        # The gates before the loop stay pending, since gates of the loop may join them.
        with recorder.hide_pending():
            number = jnp.asarray(0)
            loop = TracedLoop.trace(
                recorder, "for_loop", body, carried, number, n_iterations=n_iterations
            )
        repeated = loop.gates
        if repeated is None:

            def scan_loop(now: Any) -> Any:
                """Add the ``scan``; register the gate parameters of all its iterations."""
                now, stacked = jax.lax.scan(loop.step, now, ForLoop.make_indices(n_iterations))
                recorder.append_params(jnp.ravel(stacked), np.tile(loop.frequencies, n_iterations))
                return now

            return self._run_traced_loop(loop, scan_loop)
        computed, first = loop.make_classical_body(recorder.get_unbound_carry()), loop.carried
        carried, (params, wires) = stack_iterations(computed, first, n_iterations)
        total = n_iterations * repeated.n_iterations
        if not recorder.passes:
            wires_of = lambda number: computed(first, number)[1][1]
            every = RepeatedSequence(repeated.sequence, jnp.ravel(params), jnp.ravel(wires), total)
            straight = unroll_loop(every, wires_of, n_iterations, self.device.qubits)
            if straight is None:
                recorder.set_pending(every)
            else:
                recorder.add_sequence(straight)
            return tuple(carried)
        # If the body is a loop itself and still one sequence of gates, no gates merged where inner
        # iterations meet.  The same gates meet between two outer iterations.
        merged = MergedLoop([], repeated.sequence, params, [])
        if recorder.should_merge_boundaries and repeated.n_iterations == 1:
            merged = merge_iterations(repeated.sequence, params)
        for run in merged.before:
            recorder.add_sequence(run)
        if merged.sequence.gates:
            recorder.set_pending(
                RepeatedSequence(merged.sequence, jnp.ravel(merged.params), jnp.ravel(wires), total)
            )
        for run in merged.after:
            recorder.add_sequence(run)
        return tuple(carried)

    def _run_traced_loop(self, loop: TracedLoop, run: Callable[[Any], Any]) -> tuple[Any, ...]:
        """Add a loop that applies gates in each iteration; return the carried values after it.

        Gates that were merged across iterations are applied before and after it.

        Args:
            loop: the loop, of which one iteration was traced.
            run: adds the loop: maps the pair of carried values and circuit state before it to the
                pair after it.
        """
        self.recorder.add_sequence(GateSequence(gates=loop.ends.before))
        carried = self._resume(run((loop.carried, self.recorder.bind_and_get_carry())))
        self.recorder.add_sequence(GateSequence(gates=loop.ends.after))
        return carried

    def _resume(self, now: Any) -> tuple[Any, ...]:
        """Set the circuit's state to the state after a loop; return the loop's carried values.

        Args:
            now: the pair of carried values and circuit state after the loop.
        """
        carried, state = now
        self.recorder.resume(state)
        return tuple(carried)

    def branch(self, branches: Branches) -> Any:
        """Record a conditional whose branches may apply gates; return its result."""
        return record_branches(self.recorder, branches)

    def mid_measure(
        self, label: Wire, *, reset: bool, postselect: int, site: str, is_joint: bool = False
    ) -> Any:
        """Measure a wire mid-circuit, which collapses the state; return the outcome.

        The outcome is a traced boolean scalar.

        Args:
            label: the wire label, static or traced.
            reset: whether the wire is reset to zero after the measurement.
            postselect: the outcome to postselect on, 0 or 1; -1 for none.
            site: the user's ``file:line``, for errors.
            is_joint: not used.
        """
        wires, is_known = self.wires, not is_dynamic(label)
        wire = (
            jnp.int32(wires(label))
            if is_known
            else WireMap.clip_to_int32(wires.get_dynamic_qubit(label))
        )
        recorder = self.recorder
        handle, outcome = recorder.bind_and_get_state().mid_measure(
            wire, postselect=postselect, reset=reset, site=site
        )
        dynamic_params = recorder.dynamic_params
        if recorder.is_dynamic_count:
            dynamic_params, handle, outcome = dynamic_params.save_outcome(
                handle, recorder.session_handle, outcome
            )
        recorder.replace_handle(handle, dynamic_params)
        recorder.is_fresh = False
        self.has_mid_circuit = True
        self.postselects |= postselect >= 0
        return outcome

    def measure(self, request: MeasurementRequest) -> list[Any]:
        """Measure the final state by one runtime call; return an array per measurement.

        Args:
            request: the measurements, with the coefficients and matrices of their observables.

        Raises:
            CompileError: if a result is too large for the memory.
        """
        if not request.measurements:
            return []
        for measurement in request.measurements:
            self._runs_in_engine &= measurement.is_in_engine
            result = measurement.result_aval(self.device)
            MemoryCheck(self.where).check_result(result.shape, result.dtype, self.device.qubits)
        recorder, state = self.recorder, self.recorder.bind_and_get_state()
        params, amplitudes = recorder.stack_params(), recorder.amplitudes
        frequencies, amplitude_bits = (
            recorder.stack_frequencies().tobytes(),
            recorder.amplitude_bits,
        )
        if self.has_run_per_shot:
            # All outcomes of an execution are differentiated together, by its score.
            params = amplitudes = jnp.zeros(0, Precision.real_type())
            frequencies = amplitude_bits = b""
        facts = CircuitFacts(
            request.measurements,
            n_values=sum(m.count_values(self.device) for m in request.measurements),
            n_params=len(frequencies + amplitude_bits),
            in_engine=self._runs_in_engine,
            has_static_count=not recorder.has_dynamic_count,
            needs_rerun=self._needs_rerun(),
            has_shots=self.device.shots > 0,
            may_change_norm=recorder.may_change_norm,
            device_has_adjoint=self.gate_set.has_adjoint,
        )
        differentiation = Differentiation.from_facts(
            self.plan, facts, frequencies, recorder.dynamic_frequencies, amplitude_bits
        )
        handle, *values = state.measure(
            request.measurements,
            self.device,
            differentiation,
            request.stack_coefficients(),
            request.stack_matrices(),
            params,
            amplitudes,
            None if self.has_run_per_shot else recorder.perturbation,
        )
        recorder.replace_handle(handle)
        return values

    def compute_score(self) -> list[Any]:
        """Return a list with the score of one shot's outcomes, or an empty list.

        The score is the scalar 0.0. Its tangent is the tangent of the logarithm of the outcomes'
        probability, by which means over shots are differentiated. The list is empty if the score is
        not supported.
        """
        recorder, state = self.recorder, self.recorder.bind_and_get_state()
        if not self._supports_score():
            return []
        handle, score = state.score(
            recorder.stack_params(), recorder.amplitudes, recorder.perturbation, self.device
        )
        recorder.replace_handle(handle)
        return [score]

    def _supports_score(self) -> bool:
        """Return whether the engine can differentiate averages over shots by the score function.

        The score function is the derivative of the log-probability of the drawn outcomes. It needs
        the engine, unitary gates and an exact ``diff_method``.
        """
        is_exact = self._plan.diff_method in _EXACT_METHODS
        return is_exact and self._runs_in_engine and not self.recorder.may_change_norm

    def can_share_runs(self) -> bool:
        """Return whether shots with equal mid-circuit outcomes may share an execution.

        True if the engine can differentiate averages over shots by the score function, without
        postselection and loops with a dynamic trip count. Binds the gates that have no equation
        yet: call it last.
        """
        self.recorder.bind_pending_gates()  # Updates `may_change_norm`.
        may_not = self.postselects or self.recorder.has_dynamic_count
        return not may_not and self._supports_score()

    @functools.cached_property
    def shot_fractions(self) -> Any:
        """The fraction of each group's shots that this execution represents, ``[groups]``.

        A group is an entry of the shot vector. The fractions are measured at the first access.
        """
        [found] = self.sample([Frequencies(groups=self.groups)])
        return found[:, 0]

    @property
    def has_run_per_shot(self) -> bool:
        """Whether the runtime executes the circuit once per shot."""
        return self.treatment is Outcomes.RUN_PER_SHOT

    def _needs_rerun(self) -> bool:
        """Return whether derivatives must run the gates again.

        False if the adjoint method is available: without shots and mid-circuit measurements, or
        with mid-circuit measurements if the engine runs all combinations of their outcomes.
        """
        # Only the engine goes back through outcomes, and only if all of them are executed.
        if not self.has_mid_circuit:
            return self.device.shots > 0
        return not (self.treatment is Outcomes.ALL and self._runs_in_engine)

    def sample(self, requests: Sequence[SampleRequest]) -> list[Any]:
        """Sample the final state once; return an array for each requested result.

        Args:
            requests: descriptions of the results, such as ``Samples()``. If the circuit is
                executed once per shot, either all requests must be ``ShadowSnapshots`` (or
                ``ShadowMeans``) or none.
        """
        snapshots = [what for what in requests if isinstance(what, ShadowSnapshots)]
        if self.has_run_per_shot and snapshots:
            return [sample_one_shot_shadow(self, what) for what in snapshots]
        return self.measure(MeasurementRequest.from_samples(requests))

    def average_over_groups(self, value: Any) -> Any:
        """Return this execution's contributions ``[groups, ...]`` to means of ``value``.

        A group is an entry of the shot vector. If several executions share the shots, the value is
        multiplied by the fraction of each group's shots that this execution represents.
        """
        if self.treatment is Outcomes.SHARED_RUNS:
            return jnp.tensordot(self.shot_fractions, value, axes=0)
        return jnp.broadcast_to(value, (len(self.groups), *value.shape))

    def broadcast_to_shots(self, value: Any) -> Any:
        """Repeat a value that is the same for all shots, along a new leading axis of shots."""
        return jnp.broadcast_to(value, (self.device.shots, *value.shape))

    def mask_other_shots(self, statistics: Sequence[Statistic]) -> list[Statistic]:
        """Zero the per-shot values of shots that belong to other executions.

        Shots with equal outcomes share an execution under ``Outcomes.SHARED_RUNS``; otherwise the
        statistics are returned unchanged. The sum over all executions has all shots' values.
        """
        is_shared = self.treatment is Outcomes.SHARED_RUNS and any(
            each.is_per_shot for each in statistics
        )
        if not is_shared:
            return list(statistics)
        return mask_other_shots(statistics, self.shot_fractions, self._shots_of_run())

    def _shots_of_run(self) -> Any:
        """Measure which shots this execution represents: an array ``[shots]`` of 1 and 0."""
        handle, found = self.recorder.bind_and_get_state().measure_shots(self.device)
        self.recorder.replace_handle(handle)
        return found
