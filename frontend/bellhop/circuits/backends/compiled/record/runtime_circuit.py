"""A circuit while its quantum function is traced: its loops and conditionals.

A loop whose body only applies gates becomes two equations.  The first computes the angles of all
iterations as one vector, and the second is one call of the runtime, which applies the gates of all
iterations.  ``for_loop(0, 1000)(lambda i: qml.RX(x * i, 0))()`` is traced to ::

    angles = mul x [0. 1. 2. ...]
    state = quantum_gates[RX] state angles 0 [] 1000

(A shorter loop is unrolled, see ``unrolled``.)  A loop whose body does something else too, such as
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

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.base.types import Handle, Operand, Wire
from bellhop.circuits.backends.compiled.differentiable.differentiation_choice import (
    DifferentiationChoice,
)
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
from bellhop.circuits.ir.circuit import ONE_SHOT, SHARED, TREE
from bellhop.circuits.ir.device_measurements import Frequencies, SampleRequest, ShadowSnapshots
from bellhop.circuits.ir.device_spec import DeviceSpec, GateSet
from bellhop.circuits.ir.diff_method import (
    ADJOINT,
    BEST,
    DIFFERENCE_METHODS,
    PARAMETER_SHIFT,
)
from bellhop.circuits.ir.gate_jaxpr import ForLoop
from bellhop.circuits.ir.measurement_request import MeasurementRequest
from bellhop.circuits.ir.memory import MemoryCheck
from bellhop.circuits.ir.precision import Precision
from bellhop.circuits.ir.statistics import Statistic
from bellhop.circuits.ir.wires import WireMap, is_dynamic
from bellhop.circuits.passes.backend_circuit import BackendCircuit
from bellhop.tracing.current_circuit import Branches


class RuntimeCircuit(BackendCircuit):
    """A circuit of the runtime's, which is traced to ``quantum_gates``, ``scan``, ``cond``, ...

    If the body of a loop only applies gates and has no side effects, the program first computes the
    parameters of all iterations, and then calls the runtime once.  If the program computes the
    length of the loop, it does so for a block of iterations at a time.  If the body is itself such
    a loop, the two loops become one call.

    Args:
        handle: the handle of a fresh state.
        device: the device, for errors and for the measurements that it supports.
        gate_set: the gates that the device applies; others are decomposed.
        wires: gives the qubit of a wire label.
        where: the QNode and its line, for errors.
        differentiation: how the QNode is differentiated.
        rows: the row of the batches of parameters.

    Attributes:
        gates: what was applied so far.
        postselects: whether one of these measurements postselects.
        groups: the number of shots of each group over which means are taken.
    """

    def __init__(
        self,
        handle: Handle,
        device: DeviceSpec,
        gate_set: GateSet,
        wires: WireMap,
        where: str,
        differentiation: DifferentiationChoice,
        rows: TracedRow,
    ) -> None:
        super().__init__(wires, where, rows)
        self.gates = GateEquationRecorder(
            handle, device.passes, keeps_matrices=gate_set.keeps_matrices
        )
        self.device = device
        self.gate_set = gate_set
        self._differentiation = differentiation
        self.postselects = False
        self.groups: tuple[int, ...] = ()
        self._runs_in_engine = device.engine

    def apply(self, operations: Sequence[Any]) -> None:
        """Append the gates of operations."""
        for run in self._build_gate_list(operations).sequences:
            if isinstance(run, GateSequence):
                self.gates.add_sequence(run)
            else:
                self.apply_control_flow(run)

    @property
    def unrolls_nests(self) -> bool:
        """Whether nests of loops with few gates are unrolled; compiler passes need the loops."""
        return not self.device.passes

    def apply_straight(self, operations: Sequence[Any]) -> bool:
        """Append the gates of operations if they are few, and a straight run; return whether."""
        gates = self._build_gate_list(operations, ForLoop.MAX_UNROLLED_GATES)
        is_straight = gates.is_straight(ForLoop.MAX_UNROLLED_GATES)
        for run in gates.sequences if is_straight else ():
            assert isinstance(run, GateSequence)
            self.gates.add_sequence(run)
        return is_straight

    def _build_gate_list(self, operations: Sequence[Any], most: int | None = None) -> GateList:
        """Return the gates of operations; not of all, where they are more, or no straight run."""
        gates = GateList(
            self.gate_set,
            self.wires,
            self.where,
            rows=self.rows,
            is_first=self.gates.is_fresh,
            find_site=self.find_site,
            by_differences=self._differentiation.method in DIFFERENCE_METHODS,
            in_engine=self.device.has_engine_of_any_size,
        )
        if self.gates.is_fresh and self.gate_set.can_apply("StatePrep"):
            operations = merge_preparations(operations)
        try:
            for op in operations:
                gates.add(op)
                if most is not None and not gates.is_straight(most):
                    break
        except Exception:
            # Of what fails alone: to enter these for each gate takes time.
            with self.error_location(op), explain_concretization(op, self.where):
                raise
        return gates

    def for_loop(
        self,
        n_iterations: int | Operand,
        body: Callable[..., Any],
        carried: tuple[Any, ...],
        *,
        is_nest: bool = False,
    ) -> tuple[Any, ...]:
        """Run a loop whose body applies gates; return the carried values after it."""
        if isinstance(n_iterations, int):
            return self._run_static_loop(n_iterations, body, carried)
        return self._run_dynamic_loop(
            TracedLoop.trace(self.gates, "for_loop", body, carried, jnp.asarray(0)),
            lambda step, now: jax.lax.fori_loop(0, n_iterations, lambda i, x: step(x, i)[0], now),
            functools.partial(consume_iterations, n_iterations=n_iterations),
        )

    def while_loop(
        self, condition: Callable[..., Any], body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Run a loop while a condition holds; return the carried values."""
        goes_on = lambda now: condition(now[0])
        return self._run_dynamic_loop(
            TracedLoop.trace(self.gates, "while_loop", body, carried),
            lambda step, now: jax.lax.while_loop(goes_on, lambda x: step(x)[0], now),
            functools.partial(consume_while_iterations, condition),
        )

    def _run_dynamic_loop(
        self, loop: TracedLoop, run: Callable[..., Any], run_in_blocks: Callable[..., Any]
    ) -> tuple[Any, ...]:
        """Run a loop whose length the program computes.

        Args:
            loop: as traced.
            run: takes what runs an iteration, and what the first one gets.
            run_in_blocks: the same, of values that gates use block by block.
        """
        if loop.gates is None:
            return self._run_traced_loop(loop, functools.partial(run, loop.step))
        computed = loop.make_classical_body(self.gates.peek_carry())
        use, state = self.gates.make_block_consumer(loop.gates)
        return self._resume(
            run_in_blocks(body=computed, carried=loop.carried, use=use, state=state)
        )

    def _run_static_loop(
        self, n_iterations: int, body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Run a loop with a static trip count; same arguments and results as ``for_loop``."""
        gates = self.gates
        # The gates before the loop stay pending, since gates of the loop may join their run.
        with gates.hide_pending():
            number = jnp.asarray(0)
            loop = TracedLoop.trace(
                gates, "for_loop", body, carried, number, n_iterations=n_iterations
            )
        repeated = loop.gates
        if repeated is None:

            def scan_loop(now: Any) -> Any:
                now, stacked = jax.lax.scan(loop.step, now, ForLoop.make_indices(n_iterations))
                gates.append_params(jnp.ravel(stacked), np.tile(loop.frequencies, n_iterations))
                return now

            return self._run_traced_loop(loop, scan_loop)
        computed, first = loop.make_classical_body(gates.peek_carry()), loop.carried
        carried, (params, wires) = stack_iterations(computed, first, n_iterations)
        total = n_iterations * repeated.n_iterations
        if not gates.passes:
            wires_of = lambda number: computed(first, number)[1][1]
            every = RepeatedSequence(repeated.sequence, jnp.ravel(params), jnp.ravel(wires), total)
            straight = unroll_loop(every, wires_of, n_iterations, self.device.qubits)
            if straight is None:
                gates.set_pending(every)
            else:
                gates.add_sequence(straight)
            return tuple(carried)
        # The body is one run of gates although it is a loop, so no gates merged where one inner
        # iteration meets the next.  The same gates meet between two outer iterations.
        merged = MergedLoop([], repeated.sequence, params, [])
        if gates.should_merge_boundaries and repeated.n_iterations == 1:
            merged = merge_iterations(repeated.sequence, params)
        for run in merged.before:
            gates.add_sequence(run)
        if merged.sequence.gates:
            gates.set_pending(
                RepeatedSequence(merged.sequence, jnp.ravel(merged.params), jnp.ravel(wires), total)
            )
        for run in merged.after:
            gates.add_sequence(run)
        return tuple(carried)

    def _run_traced_loop(self, loop: TracedLoop, run: Callable[[Any], Any]) -> tuple[Any, ...]:
        """Run a traced loop, and what was taken out of its iterations before and after it."""
        self.gates.add_sequence(GateSequence(gates=loop.ends.before))
        carried = self._resume(run((loop.carried, self.gates.flush_carry())))
        self.gates.add_sequence(GateSequence(gates=loop.ends.after))
        return carried

    def _resume(self, now: Any) -> tuple[Any, ...]:
        """Go on after a loop; return the values that it carried."""
        carried, state = now
        self.gates.resume(state)
        return tuple(carried)

    def branch(self, branches: Branches) -> Any:
        """Run one branch of a conditional, which may apply gates; return its result."""
        return record_branches(self.gates, branches)

    def mid_measure(
        self, label: Wire, *, reset: bool, postselect: int, site: str, is_joint: bool = False
    ) -> Any:
        """Measure a wire, collapse the state, and return the outcome."""
        wires, is_known = self.wires, not is_dynamic(label)
        wire = (
            jnp.int32(wires(label))
            if is_known
            else WireMap.as_int32(wires.get_dynamic_qubit(label))
        )
        gates = self.gates
        handle, outcome = gates.bound_state().mid_measure(
            wire, postselect=postselect, reset=reset, site=site
        )
        count = gates.dynamic_params
        if gates.is_dynamic_count:
            count, handle, outcome = count.save_outcome(handle, gates.session, outcome)
        gates.replace_handle(handle, count)
        gates.is_fresh = False
        self.has_mid_circuit = True
        self.postselects |= postselect >= 0
        return outcome

    def measure(self, request: MeasurementRequest) -> list[Any]:
        """Measure all measurements of a request.

        Args:
            request: the measurements, with the coefficients and matrices of their observables.

        Returns:
            an array for each measurement, in order.
        """
        if not request.measurements:
            return []
        for measurement in request.measurements:
            self._runs_in_engine &= measurement.in_engine
            result = measurement.result_aval(self.device)
            MemoryCheck(self.where).check_result(result.shape, result.dtype, self.device.qubits)
        gates, state = self.gates, self.gates.bound_state()
        params, amplitudes = gates.stack_params(), gates.amplitudes
        frequencies, amplitude_bits = gates.stack_frequencies().tobytes(), gates.amplitude_bits
        if self.has_run_per_shot:
            # What is drawn in it is differentiated as a whole, by its score.
            params = amplitudes = jnp.zeros(0, Precision.real_type())
            frequencies = amplitude_bits = b""
        choice = self._differentiation
        if self.method == SHARED:
            choice = replace(choice, by_likelihood=True)
        differentiation = choice.resolve(
            request.measurements,
            frequencies,
            gates.dynamic_frequencies,
            is_replayed=self._needs_rerun(),
            n_values=sum(m.count_values(self.device) for m in request.measurements),
            is_counted=not gates.has_dynamic_count,
            amplitudes=amplitude_bits,
            in_engine=self._runs_in_engine,
            has_shots=self.device.shots > 0,
            may_change_norm=gates.may_change_norm,
        )
        handle, *values = state.measure(
            request.measurements,
            self.device,
            differentiation,
            request.stack_coefficients(),
            request.stack_matrices(),
            params,
            amplitudes,
            None if self.has_run_per_shot else gates.perturbation,
        )
        gates.replace_handle(handle)
        return values

    def compute_score(self) -> list[Any]:
        """Return the score of all that a run of one shot has drawn; nothing where it has none."""
        gates, state = self.gates, self.gates.bound_state()
        if not self._supports_score():
            return []
        handle, score = state.score(
            gates.stack_params(), gates.amplitudes, gates.perturbation, self.device
        )
        gates.replace_handle(handle)
        return [score]

    def _supports_score(self) -> bool:
        """Return whether the engine supports the score function of the drawn outcomes."""
        is_exact = self._differentiation.method in (ADJOINT, BEST, PARAMETER_SHIFT)
        return is_exact and self._runs_in_engine and not self.gates.may_change_norm

    def can_share_runs(self) -> bool:
        """Tell, at the end, whether shots with the same outcomes may share a run."""
        self.gates.flush()  # Updates `may_change_norm`.
        may_not = self.postselects or self.gates.has_dynamic_count
        return not may_not and self._supports_score()

    @functools.cached_property
    def shot_fractions(self) -> Any:
        """For each shot group, the fraction of its shots that this execution represents."""
        [found] = self.sample([Frequencies(groups=self.groups)])
        return found[:, 0]

    @property
    def has_run_per_shot(self) -> bool:
        """Whether the runtime runs it for each shot."""
        return self.method == ONE_SHOT

    def _needs_rerun(self) -> bool:
        """Return whether derivatives need executions of the circuit with shifted parameters."""
        # The engine alone goes back through outcomes, where the circuit goes through all of them.
        if not self.has_mid_circuit:
            return self.device.shots > 0
        return not (self.method == TREE and self._runs_in_engine)

    def sample(self, asked: Sequence[SampleRequest]) -> list[Any]:
        """Sample once, and return each of the results that are computed from these samples."""
        snapshots = [what for what in asked if isinstance(what, ShadowSnapshots)]
        if self.has_run_per_shot and snapshots:
            return [sample_one_shot_shadow(self, what) for what in snapshots]
        return self.measure(MeasurementRequest.from_samples(asked))

    def average_over_groups(self, value: Any) -> Any:
        """Return the contribution of a run, whose shots share a value, to each group's mean."""
        if self.method == SHARED:
            return jnp.tensordot(self.shot_fractions, value, axes=0)
        return jnp.broadcast_to(value, (len(self.groups), *value.shape))

    def broadcast_to_shots(self, value: Any) -> Any:
        """Return a value that is the same for all shots, once for each shot."""
        return jnp.broadcast_to(value, (self.device.shots, *value.shape))

    def mask_other_shots(self, statistics: Sequence[Statistic]) -> list[Statistic]:
        """Return the statistics of a run, with zeros for the shots of others."""
        is_shared = self.method == SHARED and any(each.is_per_shot for each in statistics)
        if not is_shared:
            return list(statistics)
        return mask_other_shots(statistics, self.shot_fractions, self._shots_of_run())

    def _shots_of_run(self) -> Any:
        """Return which shots this execution represents, as an integer array [shots]."""
        handle, found = self.gates.bound_state().measure_shots(self.device)
        self.gates.replace_handle(handle)
        return found
