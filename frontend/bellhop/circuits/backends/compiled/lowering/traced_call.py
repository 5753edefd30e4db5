"""Traces a call of a QNode for the runtime, with all runs of its circuit.

Each mid-circuit measurement is deferred if it can be (``outcomes/deferral.py``), and shots with
the same outcomes share a run if that is faster (``outcomes/shot_grouping.py``).  Whether it is
faster is read in the traced circuit; a circuit that does not gain is traced again without sharing.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr

from bellhop._jax.jaxprs import dce, lower_high_primitives
from bellhop.base.types import Handle
from bellhop.circuits.backends.compiled.differentiable import linearize_rule
from bellhop.circuits.backends.compiled.differentiable.circuit_primitive import CircuitBody
from bellhop.circuits.backends.compiled.differentiable.compiled_state import CompiledState
from bellhop.circuits.backends.compiled.differentiable.differentiation_choice import (
    DifferentiationChoice,
)
from bellhop.circuits.backends.compiled.differentiable.score_function import scored
from bellhop.circuits.backends.compiled.lowering.plugin_devices import check_runs
from bellhop.circuits.backends.compiled.outcomes.deferral import (
    Deferral,
    DeferringPlayer,
    may_be_deferred,
    needs_outcomes,
)
from bellhop.circuits.backends.compiled.outcomes.sampled_execution import (
    as_drawn_run,
    one_by_one,
    with_constants_as_inputs,
)
from bellhop.circuits.backends.compiled.outcomes.shot_grouping import is_worth_sharing
from bellhop.circuits.backends.compiled.record.runtime_circuit import RuntimeCircuit
from bellhop.circuits.ir.broadcasting import ROW_STRUCT, Rows
from bellhop.circuits.ir.circuit import ONE_SHOT, SHARED, TREE, Circuit
from bellhop.circuits.ir.config import Shots
from bellhop.circuits.ir.device_spec import DeviceSpec, GateSet
from bellhop.circuits.ir.measurement_types import is_of_amplitudes
from bellhop.circuits.ir.postselection import may_differ, possible
from bellhop.circuits.ir.randomness import Randomness
from bellhop.circuits.ir.results import Results
from bellhop.circuits.ir.seeds import offer_seed_of
from bellhop.circuits.ir.statistics import Statistic
from bellhop.circuits.ir.vectorize.vectorize import vectorized
from bellhop.circuits.ir.wires import WireMap
from bellhop.circuits.measure.device_values import DeviceValues
from bellhop.circuits.measure.measurement_registry import (
    measure_results,
)
from bellhop.circuits.passes.operation_transforms import rewriting
from bellhop.mesh.explicit_mesh import leave_mesh


@dataclass(frozen=True)
class TracedCall:
    """A call of a QNode as traced, for the runtime.

    Attributes:
        call: the call.
        rows: the batches of parameters of its gates.
        closed: from handle, row and inputs to handle and values; of one run, where the circuit goes
            through several and their results are summed.
        device: where it runs, with the shots of one run.
        method: how a circuit with mid-circuit measurements is run; None for one without.
        postselects: whether a mid-circuit measurement postselects.
        has_score: whether there are scores among the values of a run.
        results: what the circuit returns.
        randomness: what becomes of random outcomes.
    """

    call: Circuit
    rows: Rows
    closed: ClosedJaxpr
    device: DeviceSpec
    method: str | None
    postselects: bool
    has_score: bool
    results: Results
    randomness: Randomness

    def run(self, consts: Sequence[Any] | None = None, inputs: Sequence[Any] | None = None) -> Any:
        """Bind the circuit; return the values in the structure of the quantum function.

        Args:
            consts: in place of those that it was traced with.
            inputs: in place of those of the call.
        """
        consts = self.closed.consts if consts is None else consts
        inputs = self.call.inputs if inputs is None else inputs
        has_rows = self.rows.size is not None

        def run(row: Any) -> Any:
            operands = [*consts, *([row] if has_rows else []), *inputs]
            return self._finish(linearize_rule.bind(self._body, operands))

        differ = self.method is not None
        return self.rows.run(run, lambda all_: self.results.of_all_rows(all_, differ=differ))

    @functools.cached_property
    def _body(self) -> CircuitBody:
        config = self.call.config
        return CircuitBody(
            with_constants_as_inputs(
                self.closed, leaves_out=0 if self.rows.size is not None else 1
            ),
            config.name,
            config.where,
            config.site,
            self.device,
            self.randomness,
        )

    def _finish(self, values: Sequence[Any]) -> Any:
        """Return the results in their structure."""
        total = is_accepted = None
        if self.postselects:
            first, *values = values
            if self.method == TREE:
                total = possible(first)
            else:
                is_accepted = first
        return self.results.finish(values, total=total, is_accepted=is_accepted)


def trace_for_runtime(
    call: Circuit,
    device: Any,
    wires: WireMap,
    gates: GateSet,
    spec: DeviceSpec,
    differentiation: DifferentiationChoice | None = None,
) -> TracedCall:
    """Trace a call of a QNode with all runs of its circuit.

    Args:
        call: the circuit.
        device: its PennyLane device, whose generator seeds random numbers.
        wires: those of the circuit.
        gates: those of the device.
        spec: the device, as the runtime opens it.
        differentiation: how it is differentiated, if not as the QNode says.
    """
    config, shots, where = call.config, call.shots, call.where
    by = differentiation or DifferentiationChoice(
        config.diff_method, tuple(config.read_diff_options().items()), gates.has_adjoint
    )
    in_engine = spec.engine and config.engine
    precision = spec.precision if in_engine else 64
    spec = replace(spec, passes=config.passes, engine=in_engine, precision=precision)
    tracer = _RunTracer(call, wires, gates, spec, by, Rows(where))
    with leave_mesh([ROW_STRUCT, *call.inputs]) as inputs:
        defers = config.mcm_method in (None, "deferred")
        once = tracer.trace(inputs, defers=defers, shares=True)
        has_rows = any(statistic.is_of_shots for statistic in once.results.statistics)
        if once.method == SHARED and not is_worth_sharing(
            once.closed, once.device, has_rows=has_rows
        ):
            once = tracer.trace(inputs, defers=False, shares=False)
        method = once.method
        # Only now: measurements that are deferred are none.
        check_runs(
            spec.name,
            where,
            is_tree=method == TREE,
            n_groups=0 if method == ONE_SHOT else len(shots.copies),
        )
        closed, randomness = vectorized(once.closed), once.randomness
        postselects = once.postselects and method != TREE
        if postselects and not config.drops_shots:
            randomness = Randomness.ANEW if may_differ(closed) else Randomness.CONDITIONED
        if method == ONE_SHOT or postselects:
            closed = as_drawn_run(closed, where, until_accepted=postselects)
        if method == ONE_SHOT:
            closed = one_by_one(
                closed,
                once.results.statistics,
                shots.copies,
                inputs,
                postselects=postselects,
                has_score=once.has_score,
            )
    if randomness not in (Randomness.NONE, Randomness.TREE):
        offer_seed_of(device)
    return replace(once, closed=closed, randomness=randomness)


@dataclass(frozen=True)
class _RunTracer:
    """Traces one run of the circuit of a call."""

    call: Circuit
    wires: WireMap
    gates: GateSet
    device: DeviceSpec
    differentiation: DifferentiationChoice
    rows: Rows

    def trace(self, inputs: Sequence[Any], *, defers: bool, shares: bool) -> TracedCall:
        """Trace a run.

        Args:
            inputs: the row and those of the call.
            defers: whether measurements in the middle are deferred if they can be.
            shares: whether shots share runs if they can.
        """
        call, shots = self.call, self.call.shots
        deferred: set[int] = set()
        with_closed: Callable[[ClosedJaxpr], TracedCall] | None = None

        def run(handle: Handle, row: Any, *inputs: Any) -> list[Any]:
            nonlocal with_closed
            circuit = RuntimeCircuit(
                handle,
                self.device,
                self.gates,
                self.wires,
                call.where,
                self.differentiation,
                self.rows.at(row),
            )
            player, deferral = None, Deferral(deferred)
            function = call.function.traced(call.where, inputs, circuit)
            if defers and may_be_deferred(function.closed.jaxpr):
                player = DeferringPlayer(rewriting(call.config), deferral=deferral)
            leaves, tree = call.function.play(circuit, inputs, player)
            if not deferral.holds_for(leaves):
                return []
            method = call.chosen_method(circuit, leaves)
            if method == ONE_SHOT and shares and circuit.may_share_runs():
                method = SHARED
            circuit.method = method
            circuit.device = replace(self.device, shots=1 if circuit.runs_alone else shots.total)
            circuit.groups = (1,) if circuit.runs_alone else shots.copies
            weights, scores, statistics = self._measured(circuit, leaves)
            results = Results(statistics, tree, shots, circuit.precision, call.where)
            with_closed = functools.partial(
                TracedCall,
                call,
                self.rows,
                device=circuit.device,
                method=method,
                postselects=circuit.postselects,
                has_score=bool(scores),
                results=results,
                randomness=_randomness(method, shots),
            )
            return [circuit.gates.bound().handle, *weights, *scores, *results.values()]

        handle = CompiledState.handle_struct()
        closed = jax.make_jaxpr(call.name_in_errors(run))(handle, *inputs)
        if with_closed is not None:
            closed = lower_high_primitives(closed)
            # Wires that turned out to be known were computed all the same.
            closed, _ = dce(closed, [True] * len(closed.out_avals), [True] * len(closed.in_avals))
            if not needs_outcomes(closed, deferred):
                return with_closed(closed)
        return self.trace(inputs, defers=False, shares=shares)

    def _measured(
        self, circuit: RuntimeCircuit, leaves: Sequence[Any]
    ) -> tuple[list[Any], list[Any], Sequence[Statistic]]:
        """Measure a circuit at its end.

        Returns:
            the probability of the run, where it counts; its score, where it has one; and a
            statistic for each of the leaves of what the quantum function returned.
        """
        shots = self.call.shots
        if shots.total:
            weights = list[Any]()
            statistics = circuit.of_its_shots(measure_results(leaves, circuit))
        else:
            exact = DeviceValues(circuit, is_tree=circuit.method == TREE)
            statistics = measure_results(leaves, circuit, exact)
            weights = exact.weights
            if self.device.precision == 32:
                both = zip(statistics, leaves, strict=True)
                statistics = [s.in_single() if is_of_amplitudes(leaf) else s for s, leaf in both]
        scores = circuit.score() if circuit.runs_alone else []
        for score in scores:
            fewest = min(shots.copies) if circuit.postselects else None
            statistics = scored(statistics, score, fewest)
        return weights, scores, statistics


def _randomness(method: str | None, shots: Shots) -> Randomness:
    if method == TREE:
        return Randomness.TREE
    if method == SHARED:
        return Randomness.SHARED
    if method is not None:
        return Randomness.OUTCOMES
    return Randomness.SAMPLES if shots.total else Randomness.NONE
