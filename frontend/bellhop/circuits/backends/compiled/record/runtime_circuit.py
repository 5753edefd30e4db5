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
from bellhop.circuits.backends.compiled.record.gate_sequence import GateRun, RepeatedRun
from bellhop.circuits.backends.compiled.record.gates import GateList
from bellhop.circuits.backends.compiled.record.loop_boundaries import MergedLoop, merge_iterations
from bellhop.circuits.backends.compiled.record.loop_precompute import (
    stack_iterations,
    use_iterations,
    use_iterations_while,
)
from bellhop.circuits.backends.compiled.record.loop_unrolling import unrolled
from bellhop.circuits.backends.compiled.record.recorded_gates import RecordedGates
from bellhop.circuits.backends.compiled.record.traced_bodies import TracedLoop, run_branches
from bellhop.circuits.gates.concretization_errors import naming
from bellhop.circuits.gates.decompositions import prepared_together
from bellhop.circuits.ir.broadcasting import TracedRow
from bellhop.circuits.ir.circuit import ONE_SHOT, SHARED, TREE
from bellhop.circuits.ir.device_measurements import Frequencies, SampleRequest, Snapshots
from bellhop.circuits.ir.device_spec import DeviceSpec, GateSet
from bellhop.circuits.ir.diff_method import (
    ADJOINT,
    BEST,
    BY_DIFFERENCES,
    PARAMETER_SHIFT,
)
from bellhop.circuits.ir.gate_jaxpr import MOST_GATES
from bellhop.circuits.ir.measurement_request import MeasurementRequest
from bellhop.circuits.ir.memory import check_result_fits
from bellhop.circuits.ir.precision import real_type
from bellhop.circuits.ir.statistics import Statistic
from bellhop.circuits.ir.wires import WireMap, is_dynamic
from bellhop.circuits.passes.gate_evaluation import numbers_of
from bellhop.circuits.passes.gate_replay import Player
from bellhop.circuits.passes.played_circuit import PlayedCircuit
from bellhop.tracing.current_circuit import Branches


class RuntimeCircuit(PlayedCircuit):
    """A circuit of the runtime's, which is traced to ``quantum_gates``, ``scan``, ``cond``, ...

    If the body of a loop only applies gates and has no side effects, the program first computes the
    parameters of all iterations, and then calls the runtime once.  If the program computes the
    length of the loop, it does so for a block of iterations at a time.  If the body is itself such
    a loop, the two loops become one call.

    Args:
        handle: the handle of a fresh state.
        device: the device, for errors and for what it can measure.
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
        self.gates = RecordedGates(handle, device.passes, keeps_matrices=gate_set.keeps_matrices)
        self.device = device
        self.gate_set = gate_set
        self._differentiation = differentiation
        self.postselects = False
        self.groups: tuple[int, ...] = ()
        self._runs_in_engine = device.engine

    def apply(self, operations: Sequence[Any]) -> None:
        """Append the gates of operations."""
        for run in self._runs(operations).runs:
            if isinstance(run, GateRun):
                self.gates.add(run)
            else:
                Player().play_operation(run)

    @property
    def goes_through_nests(self) -> bool:
        """Whether gates of loops of loops may be written one after another: passes see loops."""
        return not self.device.passes

    def apply_straight(self, operations: list[Any]) -> bool:
        """Apply the gates of a loop of loops, if they are few; tell whether."""
        gates = self._runs(operations, MOST_GATES)
        is_straight = gates.is_straight(MOST_GATES)
        for run in gates.runs if is_straight else ():
            assert isinstance(run, GateRun)
            self.gates.add(run)
        return is_straight

    def _runs(self, operations: Sequence[Any], most: int | None = None) -> GateList:
        """Return the gates of operations; not of all, where they are more, or no straight run."""
        gates = GateList(
            self.gate_set,
            self.wires,
            self.where,
            rows=self.rows,
            is_first=self.gates.is_fresh,
            sites=self.site_of,
            by_differences=self._differentiation.method in BY_DIFFERENCES,
            in_engine=self.device.has_engine_of_any_size,
        )
        if self.gates.is_fresh and self.gate_set.applies("StatePrep"):
            operations = prepared_together(operations)
        try:
            for op in operations:
                gates.add(op)
                if most is not None and not gates.is_straight(most):
                    break
        except Exception:
            # Of what fails alone: to enter these for each gate takes time.
            with self.at(op), naming(op, self.where):
                raise
        return gates

    def for_loop(
        self, n_iterations: int | Operand, body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Run a loop whose body applies gates; return the carried values after it."""
        body = self.allocations.part()(body)
        if isinstance(n_iterations, int):
            return self._static_loop(n_iterations, body, carried)
        return self._dynamic_loop(
            TracedLoop.of(self.gates, "for_loop", body, carried, jnp.asarray(0)),
            lambda step, now: jax.lax.fori_loop(0, n_iterations, lambda i, x: step(x, i)[0], now),
            functools.partial(use_iterations, n_iterations=n_iterations),
        )

    def while_loop(
        self, condition: Callable[..., Any], body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Run a loop while a condition holds; return the carried values."""
        goes_on = lambda now: condition(now[0])
        return self._dynamic_loop(
            TracedLoop.of(self.gates, "while_loop", self.allocations.part()(body), carried),
            lambda step, now: jax.lax.while_loop(goes_on, lambda x: step(x)[0], now),
            functools.partial(use_iterations_while, condition),
        )

    def _dynamic_loop(
        self, loop: TracedLoop, run: Callable[..., Any], run_in_blocks: Callable[..., Any]
    ) -> tuple[Any, ...]:
        """Run a loop whose length the program computes.

        Args:
            loop: as traced.
            run: takes what runs an iteration, and what the first one gets.
            run_in_blocks: the same, of values that gates use block by block.
        """
        if loop.gates is None:
            return self._run_loop(loop, functools.partial(run, loop.step))
        computed = loop.classical(self.gates.unread())
        use, state = self.gates.in_blocks(loop.gates)
        return self._resume(
            run_in_blocks(body=computed, carried=loop.carried, use=use, state=state)
        )

    def _static_loop(
        self, n_iterations: int, body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Run a loop of static length; arguments and results are those of ``for_loop``."""
        gates = self.gates
        # The gates before the loop stay pending, since gates of the loop may join their run.
        with gates.held_back():
            number = jnp.asarray(0)
            loop = TracedLoop.of(
                gates, "for_loop", body, carried, number, n_iterations=n_iterations
            )
        repeated = loop.gates
        if repeated is None:

            def scanned(now: Any) -> Any:
                now, stacked = jax.lax.scan(loop.step, now, numbers_of(n_iterations))
                gates.take(jnp.ravel(stacked), np.tile(loop.frequencies, n_iterations))
                return now

            return self._run_loop(loop, scanned)
        computed, first = loop.classical(gates.unread()), loop.carried
        carried, (params, wires) = stack_iterations(computed, first, n_iterations)
        total = n_iterations * repeated.n_iterations
        if not gates.passes:
            wires_of = lambda number: computed(first, number)[1][1]
            every = RepeatedRun(repeated.run, jnp.ravel(params), jnp.ravel(wires), total)
            straight = unrolled(every, wires_of, n_iterations, self.device.qubits)
            if straight is None:
                gates.wait(every)
            else:
                gates.add(straight)
            return tuple(carried)
        # The body is one run of gates although it is a loop, so no gates merged where one inner
        # iteration meets the next.  The same gates meet between two outer iterations.
        merged = MergedLoop([], repeated.run, params, [])
        if gates.merges_boundaries and repeated.n_iterations == 1:
            merged = merge_iterations(repeated.run, params)
        for run in merged.before:
            gates.add(run)
        if merged.run.gates:
            gates.wait(RepeatedRun(merged.run, jnp.ravel(merged.params), jnp.ravel(wires), total))
        for run in merged.after:
            gates.add(run)
        return tuple(carried)

    def _run_loop(self, loop: TracedLoop, run: Callable[[Any], Any]) -> tuple[Any, ...]:
        """Run a traced loop, and what was taken out of its iterations before and after it."""
        self.gates.add(GateRun(gates=loop.ends.before))
        carried = self._resume(run((loop.carried, self.gates.carried())))
        self.gates.add(GateRun(gates=loop.ends.after))
        return carried

    def _resume(self, now: Any) -> tuple[Any, ...]:
        """Go on after a loop; return the values that it carried."""
        carried, state = now
        self.gates.resume(state)
        return tuple(carried)

    def branch(self, branches: Branches) -> Any:
        """Run one branch of a conditional, which may apply gates; return its result."""
        return run_branches(self.gates, branches.map_functions(self.allocations.part()))

    def mid_measure(self, label: Wire, *, reset: bool, postselect: int, site: str) -> Any:
        """Measure a wire, collapse the state, and return the outcome."""
        wires, is_known = self.wires, not is_dynamic(label)
        wire = jnp.int32(wires(label)) if is_known else WireMap.as_int32(wires.dynamic(label))
        gates = self.gates
        handle, outcome = gates.bound_state().mid_measure(
            wire, postselect=postselect, reset=reset, site=site
        )
        count = gates.count
        if gates.is_dynamic_count:
            count, handle, outcome = count.remember(handle, gates.session, outcome)
        gates.go_on(handle, count)
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
            result = measurement.result(self.device)
            check_result_fits(result.shape, result.dtype, self.device.qubits, self.where)
        gates, state = self.gates, self.gates.bound_state()
        params, amplitudes = gates.params_vector(), gates.amplitudes
        frequencies, amplitude_bits = gates.frequencies_vector().tobytes(), gates.amplitude_bits
        if self.runs_alone:
            # What is drawn in it is differentiated as a whole, by its score.
            params = amplitudes = jnp.zeros(0, real_type())
            frequencies = amplitude_bits = b""
        choice = self._differentiation
        if self.method == SHARED:
            choice = replace(choice, by_likelihood=True)
        differentiation = choice.of(
            request.measurements,
            frequencies,
            gates.dynamic_frequencies,
            is_replayed=self._is_replayed(),
            n_values=sum(m.n_values(self.device) for m in request.measurements),
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
            request.coefficient_vector(),
            request.matrix_vector(),
            params,
            amplitudes,
            None if self.runs_alone else gates.perturbation,
        )
        gates.go_on(handle)
        return values

    def score(self) -> list[Any]:
        """Return the score of all that a run of one shot has drawn; nothing where it has none."""
        gates, state = self.gates, self.gates.bound_state()
        if not self._has_likelihood():
            return []
        handle, score = state.score(
            gates.params_vector(), gates.amplitudes, gates.perturbation, self.device
        )
        gates.go_on(handle)
        return [score]

    def _has_likelihood(self) -> bool:
        """Tell whether the engine differentiates by how likely it was what was drawn."""
        is_exact = self._differentiation.method in (ADJOINT, BEST, PARAMETER_SHIFT)
        return is_exact and self._runs_in_engine and not self.gates.may_change_norm

    def may_share_runs(self) -> bool:
        """Tell, at the end, whether shots with the same outcomes may share a run."""
        self.gates.bound()  # which tells of matrices
        may_not = self.postselects or self.gates.has_dynamic_count
        return not may_not and self._has_likelihood()

    @functools.cached_property
    def shares(self) -> Any:
        """For each shot group, the fraction of its shots that this execution represents."""
        [found] = self.sample([Frequencies(groups=self.groups)])
        return found[:, 0]

    @property
    def runs_alone(self) -> bool:
        """Whether the runtime runs it for each shot."""
        return self.method == ONE_SHOT

    def _is_replayed(self) -> bool:
        """Tell whether derivatives need the circuit to run again, with shifted parameters."""
        # The engine alone goes back through outcomes, where the circuit goes through all of them.
        if not self.has_mid_circuit:
            return self.device.shots > 0
        return not (self.method == TREE and self._runs_in_engine)

    def sample(self, asked: Sequence[SampleRequest]) -> list[Any]:
        """Sample once, and return each of the results that are computed from these samples."""
        snapshots = [what for what in asked if isinstance(what, Snapshots)]
        if self.runs_alone and snapshots:
            return [sample_one_shot_shadow(self, what) for what in snapshots]
        return self.measure(MeasurementRequest.from_samples(asked))

    def mean_of_groups(self, value: Any) -> Any:
        """Return what a run adds to the mean over each group of a value that its shots share."""
        if self.method == SHARED:
            return jnp.tensordot(self.shares, value, axes=0)
        return jnp.broadcast_to(value, (len(self.groups), *value.shape))

    def of_each_shot(self, value: Any) -> Any:
        """Return a value that is the same for all shots, once for each shot."""
        return jnp.broadcast_to(value, (self.device.shots, *value.shape))

    def of_its_shots(self, statistics: Sequence[Statistic]) -> list[Statistic]:
        """Return the statistics of a run, with zeros for the shots of others."""
        is_shared = self.method == SHARED and any(each.is_of_shots for each in statistics)
        if not is_shared:
            return list(statistics)
        return mask_other_shots(statistics, self.shares, self._shots_of_run())

    def _shots_of_run(self) -> Any:
        """Return which shots this execution represents, as an integer array [shots]."""
        handle, found = self.gates.bound_state().measure_shots(self.device)
        self.gates.go_on(handle)
        return found
