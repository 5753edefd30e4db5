"""Trace a call of a QNode for the runtime, with all runs of its circuit.

Each mid-circuit measurement is deferred if it can be (``passes/deferral.py``), and shots with
the same outcomes share a run if that is faster (``outcomes/shot_grouping.py``).  Whether it is
faster is read in the traced circuit; a circuit that does not gain is traced again without sharing.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
from jax.extend.core import ClosedJaxpr

from bellhop._jax.jaxprs import dce, lower_high_primitives
from bellhop.base.types import Handle
from bellhop.circuits.backends.choose.choose_outcomes import choose_outcomes
from bellhop.circuits.backends.compiled.differentiable import linearize_rule
from bellhop.circuits.backends.compiled.differentiable.circuit_primitive import CircuitBody
from bellhop.circuits.backends.compiled.differentiable.compiled_state import CompiledState
from bellhop.circuits.backends.compiled.differentiable.score_function import (
    forbid_unscored_derivatives,
)
from bellhop.circuits.backends.compiled.lowering.plugin_devices import check_plugin_limits
from bellhop.circuits.backends.compiled.outcomes.needed_outcomes import needs_outcomes
from bellhop.circuits.backends.compiled.outcomes.sampled_execution import (
    convert_constants_to_inputs,
    loop_over_shots,
    make_sampled_execution,
)
from bellhop.circuits.backends.compiled.outcomes.shot_grouping import should_share_runs
from bellhop.circuits.backends.compiled.record.runtime_circuit import RuntimeCircuit
from bellhop.circuits.ir.broadcasting import Rows
from bellhop.circuits.ir.circuit import Circuit
from bellhop.circuits.ir.device_spec import DeviceSpec, GateSet
from bellhop.circuits.ir.execution_plan import ExecutionPlan
from bellhop.circuits.ir.executors import Outcomes
from bellhop.circuits.ir.postselection import mask_impossible
from bellhop.circuits.ir.results import Results
from bellhop.circuits.ir.seeds import offer_device_seed, random_effect
from bellhop.circuits.ir.statistics import Statistic
from bellhop.circuits.ir.vectorize.vectorize import vectorize_jaxpr
from bellhop.circuits.ir.wires import WireMap
from bellhop.circuits.measure.device_values import DeviceValues
from bellhop.circuits.measure.measurement_registry import (
    measure_results,
)
from bellhop.circuits.measure.result_types import is_state_sized
from bellhop.circuits.passes.deferral import DeferralPass
from bellhop.jaxprs.equations import inner_jaxprs, iterate_equations
from bellhop.mesh.explicit_mesh import leave_mesh


@dataclass(frozen=True)
class TracedCall:
    """A call of a QNode, traced for the runtime; `run` adds it to the program.

    Made by `trace_for_runtime`.

    Attributes:
        call: the QNode call: its inputs, configuration and shots.
        rows: the batch axis of gate parameters (parameter broadcasting).
        closed: the jaxpr, from the state's handle, the index of the batch row and the inputs to
            state handle and values. If results are sums over several runs, the jaxpr of one run.
        device: the device, with the shots of one run.
        postselects: whether a mid-circuit measurement postselects.
        has_score: whether a run returns its score, a zero whose tangent is the tangent of the
            outcomes' log-probability, for derivatives of averages over shots.
        results: computes the QNode's results from the circuit's values.
        plan: the executor of the circuit, and its settings.
    """

    call: Circuit
    rows: Rows
    closed: ClosedJaxpr
    device: DeviceSpec
    postselects: bool
    has_score: bool
    results: Results
    plan: ExecutionPlan

    def run(self, consts: Sequence[Any] | None = None, inputs: Sequence[Any] | None = None) -> Any:
        """Bind the circuit; return its results in the quantum function's structure.

        Args:
            consts: values to use for the constants of ``closed``; None for the constants
                themselves.
            inputs: values to use for the inputs of the call; None for the inputs themselves.
        """
        consts = self.closed.consts if consts is None else consts
        inputs = self.call.inputs if inputs is None else inputs
        has_rows = self.rows.size is not None

        def run(row: Any) -> Any:
            """Bind the circuit for the batch row of a traced index; return the results."""
            operands = [*consts, *([row] if has_rows else []), *inputs]
            return self._finish_results(linearize_rule.bind_circuit(self._circuit_body, operands))

        differ = self.plan.outcomes.is_mid_circuit
        return self.rows.map_rows(run, lambda all_: self.results.finish_rows(all_, differ=differ))

    @functools.cached_property
    def _circuit_body(self) -> CircuitBody:
        """The parameter ``body`` of the circuit primitive, made from `closed`.

        The constants of `closed` become inputs. The input of the row's index is dropped if the call
        has no batch.
        """
        config = self.call.config
        return CircuitBody(
            convert_constants_to_inputs(
                self.closed, n_dropped=0 if self.rows.size is not None else 1
            ),
            config.name,
            config.where,
            config.site,
            self.device,
            self.plan,
        )

    def _finish_results(self, values: Sequence[Any]) -> Any:
        """Return the results of the QNode, computed from the circuit primitive's results.

        Args:
            values: the primitive's results. With postselection, the first one is the probability
                that all postselections hold (exact results), or whether the run or each shot is
                accepted.
        """
        total = is_accepted = None
        if self.postselects:
            first, *values = values
            if self.plan.outcomes is Outcomes.ALL:
                total = mask_impossible(first)
            else:
                is_accepted = first
        return self.results.finish(values, total=total, is_accepted=is_accepted)


def _can_runs_differ_by_callbacks(once: ClosedJaxpr) -> bool:
    """Return whether two runs with equal mid-circuit outcomes may differ, due to callbacks.

    True if an equation with an effect has results, since a callback may return other values when it
    is called again. Runs that postselection rejects are repeated as ``Outcomes.REPEATED_ANEW`` if
    this is True (the gates may differ between runs), else as ``Outcomes.REPEATED``.

    Args:
        once: the jaxpr of one run. Its random numbers, for the bases of classical shadows, do not
            count: they are drawn after all outcomes.
    """
    return any(
        eqn.effects - {random_effect} and eqn.outvars
        for eqn in iterate_equations(once.jaxpr)
        if next(inner_jaxprs(eqn), None) is None
    )


def trace_for_runtime(
    call: Circuit,
    device: Any,
    wires: WireMap,
    gates: GateSet,
    spec: DeviceSpec,
) -> TracedCall:
    """Trace a call of a QNode for the runtime, with all executions of its circuit.

    There is one execution; one per shot if mid-circuit outcomes need it; or a loop of executions
    until postselection has accepted enough shots. If outcomes are drawn, the program may take its
    random numbers from the device's generator.

    Args:
        call: the QNode call, with its inputs and settings.
        device: the PennyLane device, whose generator seeds random numbers.
        wires: maps wire labels to qubits.
        gates: the operations that the device supports without decomposition.
        spec: the data by which the runtime opens the device.

    Returns:
        the traced call; its method `run` binds the circuit.

    Raises:
        CompileError: for an operation or measurement that is not supported, and if the plugin would
            get the circuit's measurements wrong.
    """
    config, shots, where = call.config, call.shots, call.where
    in_engine = spec.engine and config.engine
    precision = spec.precision if in_engine else 64
    spec = replace(spec, passes=config.passes, engine=in_engine, precision=precision)
    tracer = _CircuitTracer(call, wires, gates, spec, Rows(where))
    with leave_mesh([Rows.STRUCT, *call.inputs]) as inputs:
        defers = config.mcm_method in (None, "deferred")
        once = tracer.trace(inputs, defers=defers)
        outcomes = once.plan.outcomes
        is_exact, has_run_per_shot = outcomes is Outcomes.ALL, outcomes is Outcomes.RUN_PER_SHOT
        # Checked after tracing, since deferred measurements are not mid-circuit measurements.
        check_plugin_limits(
            spec.name,
            where,
            is_tree=is_exact,
            n_groups=0 if has_run_per_shot else len(shots.shot_vector),
        )
        closed = vectorize_jaxpr(once.closed)
        postselects = once.postselects and not is_exact
        if postselects and not config.drops_shots:
            differ = _can_runs_differ_by_callbacks(closed)
            outcomes = Outcomes.REPEATED_ANEW if differ else Outcomes.REPEATED
        if has_run_per_shot or postselects:
            closed = make_sampled_execution(closed, where, until_accepted=postselects)
        if has_run_per_shot:
            closed = loop_over_shots(
                closed,
                once.results.statistics,
                shots.shot_vector,
                inputs,
                postselects=postselects,
                has_score=once.has_score,
            )
    if outcomes.is_drawn:
        offer_device_seed(device)
    return replace(once, closed=closed, plan=replace(once.plan, outcomes=outcomes))


class _Variant(NamedTuple):
    """One treatment of mid-circuit outcomes, for which a trace has measured the circuit.

    For instance, each shot may be a separate run, or shots with equal outcomes may share a run. A
    trace measures the circuit for all variants; `_CircuitTracer.trace` then chooses one.

    Attributes:
        make_call: makes the traced call; takes the jaxpr of the run as keyword ``closed``.
        device: the device, with the shots of the run.
        n_values: the number of its values in the trace: the handle and the results.
        has_rows: whether a result has a row for each shot.
    """

    make_call: Callable[..., TracedCall]
    device: DeviceSpec
    n_values: int
    has_rows: bool


@dataclass(frozen=True)
class _CircuitTracer:
    """Traces one run of the circuit of a call; made by `trace_for_runtime`.

    Attributes:
        call: the QNode call.
        wires: maps wire labels to qubits.
        gates: the operations that the device supports without decomposition.
        device: the data by which the runtime opens the device; without shots.
        rows: the batch of the gates' parameters.
    """

    call: Circuit
    wires: WireMap
    gates: GateSet
    device: DeviceSpec
    rows: Rows

    def trace(self, inputs: Sequence[Any], *, defers: bool) -> TracedCall:
        """Trace a run; if deferral fails, trace it again without deferral.

        Deferral replaces mid-circuit measurements by gates that the measured wire controls. If
        shots may share runs, one trace measures the circuit for both treatments of outcomes, and
        the jaxpr of the shared run decides between them.

        Args:
            inputs: types or arrays of the row's index and of the inputs of the call.
            defers: whether mid-circuit measurements are deferred if they can be.

        Returns:
            the traced call, whose jaxpr takes state handle, row's index and inputs.
        """
        call = self.call
        deferred: set[int] = set()
        variants: list[_Variant] = []

        def run(handle: Handle, row: Any, *inputs: Any) -> list[Any]:
            """Apply the gates and measure, once for each treatment of mid-circuit outcomes.

            `trace` traces this function to a jaxpr. The function stores the variants in `variants`
            and the qubits whose measurements are deferred in `deferred`.

            Args:
                handle: the handle of a fresh state.
                row: the index of the batch row.
                inputs: the inputs of the call.

            Returns:
                for each variant the handle and the arrays of the results; empty if deferral fails.
            """
            nonlocal deferred
            circuit = RuntimeCircuit(
                handle,
                self.device,
                self.gates,
                self.wires,
                call.where,
                call.plan,
                self.rows.get_row(row),
            )
            deferral = None
            function = call.function.get_traced(call.where, inputs, circuit)
            if defers and DeferralPass.is_needed(
                function.closed, function.measures_at_end, call.config
            ):
                deferral = DeferralPass(circuit, function.closed, call.config)
            leaves, tree = call.function.apply_to_circuit(circuit, inputs, deferral)
            if deferral is not None:
                if not deferral.has_succeeded(leaves):
                    return []
                circuit.deferred_qubits = deferred = deferral.qubits
            outcomes = choose_outcomes(call.config, circuit, leaves)
            treatments = [outcomes]
            if outcomes is Outcomes.RUN_PER_SHOT and circuit.can_share_runs():
                treatments.insert(0, Outcomes.SHARED_RUNS)
            values = list[Any]()
            for treatment in treatments:
                measured = circuit.fork(treatment)
                variant, run_values = self._measure_variant(measured, leaves, tree)
                if measured.changes_deferred:
                    variants.clear()
                    return []
                variants.append(variant)
                values.extend(run_values)
            return values

        handle = CompiledState.handle_struct()
        closed = jax.make_jaxpr(call.name_in_errors(run))(handle, *inputs)
        for number, variant in enumerate(variants):
            used = [number == i for i, each in enumerate(variants) for _ in range(each.n_values)]
            # Also removes computations of wires whose values turned out to be static.
            run_of_variant, _ = dce(
                lower_high_primitives(closed), used, [True] * len(closed.in_avals)
            )
            if needs_outcomes(run_of_variant, deferred):
                break
            if number == len(variants) - 1 or should_share_runs(
                run_of_variant, variant.device, has_rows=variant.has_rows
            ):
                return variant.make_call(closed=run_of_variant)
        return self.trace(inputs, defers=False)

    def _measure_variant(
        self, circuit: RuntimeCircuit, leaves: Sequence[Any], tree: Any
    ) -> tuple["_Variant", list[Any]]:
        """Measure a circuit for one treatment of mid-circuit outcomes.

        Args:
            circuit: the circuit, with all gates applied and its treatment of outcomes set. Its
                device and groups of shots are set here.
            leaves: the leaves of the quantum function's result, such as measurement processes.
            tree: the tree structure of this result.

        Returns:
            the variant, and its values: the handle and the results.
        """
        shots = self.call.shots
        circuit.device = replace(self.device, shots=1 if circuit.has_run_per_shot else shots.total)
        circuit.groups = (1,) if circuit.has_run_per_shot else shots.shot_vector
        weights, scores, statistics = self._measure(circuit, leaves)
        results = Results(statistics, tree, shots, circuit.precision, self.call.where)
        has_rows = any(statistic.is_per_shot for statistic in statistics)
        make_call = functools.partial(
            TracedCall,
            self.call,
            self.rows,
            device=circuit.device,
            postselects=circuit.postselects,
            has_score=bool(scores),
            results=results,
            plan=circuit.plan,
        )
        values = [
            circuit.recorder.bind_pending_gates().handle,
            *weights,
            *scores,
            *results.take_values(),
        ]
        return _Variant(make_call, circuit.device, len(values), has_rows), values

    def _measure(
        self, circuit: RuntimeCircuit, leaves: Sequence[Any]
    ) -> tuple[list[Any], list[Any], Sequence[Statistic]]:
        """Measure all return values of the quantum function at the end of the circuit.

        Args:
            circuit: the circuit, with all gates applied.
            leaves: the leaves of the quantum function's result, such as measurement processes.

        Returns:
            a list of the probability of the run, empty if results are not weighted by it; a list of
            the score of the run (a zero whose tangent is the tangent of the outcomes'
            log-probability), empty if it has none; and for each leaf a `Statistic`, which has its
            arrays.
        """
        shots = self.call.shots
        if shots.total:
            weights = list[Any]()
            statistics = circuit.mask_other_shots(measure_results(leaves, circuit))
        else:
            exact = DeviceValues(circuit, is_tree=circuit.treatment is Outcomes.ALL)
            statistics = measure_results(leaves, circuit, exact)
            weights = exact.weights
            if self.device.precision == 32:
                both = zip(statistics, leaves, strict=True)
                statistics = [
                    s.to_single_precision() if is_state_sized(leaf) else s for s, leaf in both
                ]
        scores = circuit.compute_score() if circuit.has_run_per_shot else []
        for score in scores:
            fewest = min(shots.shot_vector) if circuit.postselects else None
            statistics = forbid_unscored_derivatives(statistics, score, fewest)
        return weights, scores, statistics
