"""Traces a QNode's circuit; decides how often it runs and how results are computed of the runs."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from jax.extend.core import ClosedJaxpr

from bellhop._jax.jaxprs import dce, without_high_primitives
from bellhop.base.source import definition_site, function_name, named_after
from bellhop.base.types import Handle
from bellhop.circuits.circuit import linearization
from bellhop.circuits.circuit.circuit_primitive import CircuitBody
from bellhop.circuits.circuit.drawn_run import as_drawn_run, one_by_one, with_constants_as_inputs
from bellhop.circuits.circuit.qnode_call import ONE_SHOT, SHARED, TREE, QNodeCall
from bellhop.circuits.circuit.randomness import Randomness
from bellhop.circuits.circuit.results import Results, Shots
from bellhop.circuits.circuit.sharing import is_worth_sharing
from bellhop.circuits.derivatives.score import scored
from bellhop.circuits.gates.broadcasting import ROW_STRUCT, Rows
from bellhop.circuits.gates.device import DeviceSpec, check_runs
from bellhop.circuits.measure.measurements import MeasurementList
from bellhop.circuits.measure.process import is_of_amplitudes
from bellhop.circuits.measure.processes import as_process, exact_statistics, sampled_statistics
from bellhop.circuits.operations.postselection import (
    drops_shots,
    may_differ,
    possible,
)
from bellhop.circuits.operations.seeds import offer_seed_of
from bellhop.circuits.operations.state_primitives import HANDLE_STRUCT
from bellhop.circuits.vectorize.vectorize import vectorized
from bellhop.mesh.explicit_mesh import apart_from_mesh


class Once(NamedTuple):
    """One run of a circuit, as traced.

    Attributes:
        closed: from handle and inputs to handle and values, without dead code.
        device: where it runs, with the shots of one run.
        method: how a circuit with mid-circuit measurements is run; None for one without.
        postselects: whether a mid-circuit measurement postselects.
        has_score: whether there are scores among its values.
        results: what the circuit returns.
    """

    closed: ClosedJaxpr
    device: DeviceSpec
    method: str | None
    postselects: bool
    has_score: bool
    results: Results


# Takes what makes a player, which plays the quantum function; returns nothing where it could not.
Trace = Callable[[Callable[[], Any]], Once | None]


@dataclasses.dataclass(frozen=True)
class TracedCircuit:
    """A circuit of a QNode's as traced, for the runtime.

    Attributes:
        call: the call of the QNode.
        rows: the batches of parameters of its gates.
        once: one run.
        closed: from handle, row and inputs to handle and values; of one run, where the circuit goes
            through a tree of outcomes.
        randomness: what becomes of random outcomes.
    """

    call: QNodeCall
    rows: Rows
    once: Once
    closed: ClosedJaxpr
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
            return self._finish(linearization.bind(self._body, operands))

        differ = self.once.method is not None
        return self.rows.run(run, lambda all_: self.once.results.of_all_rows(all_, differ=differ))

    @functools.cached_property
    def _body(self) -> CircuitBody:
        function = self.call.qnode.func
        return CircuitBody(
            with_constants_as_inputs(
                self.closed, leaves_out=0 if self.rows.size is not None else 1
            ),
            function_name(function),
            self.call.where,
            definition_site(function),
            self.once.device,
            self.randomness,
        )

    def _finish(self, values: Sequence[Any]) -> Any:
        """Return the results in their structure."""
        total = is_accepted = None
        if self.once.postselects:
            first, *values = values
            total, is_accepted = (possible(first), None) if self._is_tree else (None, first)
        return self.once.results.finish(values, total=total, is_accepted=is_accepted)

    @property
    def _is_tree(self) -> bool:
        return self.once.method == TREE


def trace_circuit(
    call: QNodeCall,
    rows: Rows,
    record: Callable[..., tuple[Any, list[Any], Any]],
    chosen: Callable[[Trace], Once],
    device: DeviceSpec,
) -> TracedCircuit:
    """Trace a circuit with all of its runs.

    Args:
        call: the call of its QNode.
        rows: the batches of parameters of its gates.
        record: takes a player, the handle of a fresh state, the row and the inputs; plays the
            quantum function; returns its circuit, and the leaves and structure of its result.
        chosen: traces with what makes a player, and returns the run of its choice.
        device: where it runs.
    """
    shots, inputs = call.shots, [ROW_STRUCT, *call.inputs]
    with apart_from_mesh(inputs) as plain:
        trace = functools.partial(_trace_once, call, record, plain, device)
        once = chosen(functools.partial(trace, shares=True))
        has_rows = any(statistic.is_of_shots for statistic in once.results.statistics)
        if once.method == SHARED and not is_worth_sharing(
            once.closed, once.device, has_rows=has_rows
        ):
            once = chosen(functools.partial(trace, shares=False))
        method = once.method
        # Only now: measurements that are deferred are none.
        check_runs(
            device.name,
            call.where,
            is_tree=method == TREE,
            n_groups=0 if method == ONE_SHOT else len(shots.copies),
        )
        postselects = once.postselects and method != TREE
        closed = vectorized(once.closed)
        randomness = _randomness(method, shots)
        if postselects and not drops_shots(call.qnode):
            randomness = Randomness.ANEW if may_differ(closed) else Randomness.CONDITIONED
        if method == ONE_SHOT or postselects:
            closed = as_drawn_run(closed, call.where, until_accepted=postselects)
        if method == ONE_SHOT:
            closed = one_by_one(
                closed,
                once.results.statistics,
                shots.copies,
                plain,
                postselects=postselects,
                has_score=once.has_score,
            )
    if randomness not in (Randomness.NONE, Randomness.TREE):
        offer_seed_of(call.qnode.device)
    return TracedCircuit(call, rows, once, closed, randomness)


def _trace_once(
    call: QNodeCall,
    record: Callable[..., tuple[Any, list[Any], Any]],
    inputs: Sequence[Any],
    device: DeviceSpec,
    make_player: Callable[[], Any],
    *,
    shares: bool,
) -> Once | None:
    """Trace one run of a circuit; arguments are those of ``trace_circuit``, and of ``Trace``.

    ``shares`` says whether shots may share it.
    """
    shots = call.shots
    once: Any = None

    def run(handle: Handle, *inputs: Any) -> list[Any]:
        nonlocal once
        player = make_player()
        circuit, leaves, out_tree = record(player, handle, *inputs)
        if not player.is_done:
            return []
        method = call.chosen_method(circuit, leaves)
        circuit.is_one_shot = method == ONE_SHOT
        if circuit.is_one_shot and shares and circuit.share_runs():
            method = SHARED
        circuit.device = dataclasses.replace(device, shots=1 if method == ONE_SHOT else shots.total)
        circuit.groups = (1,) if method == ONE_SHOT else shots.copies
        circuit.runs_alone = method == ONE_SHOT
        circuit.is_tree = method == TREE
        processes = [as_process(leaf, circuit) for leaf in leaves]
        asked = MeasurementList(circuit, is_tree=circuit.is_tree)
        if shots.total:
            statistics = circuit.of_its_shots(sampled_statistics(circuit, processes))
        else:
            statistics = exact_statistics(asked, processes)
        if device.precision == 32 and not shots.total:
            both = zip(statistics, leaves, strict=True)
            statistics = [s.in_single() if is_of_amplitudes(leaf) else s for s, leaf in both]
        scores = circuit.score() if method == ONE_SHOT else []
        for score in scores:
            fewest = min(shots.copies) if circuit.postselects else None
            statistics = scored(statistics, score, fewest)
        results = Results(statistics, out_tree, shots, circuit.precision, call.where)
        once = functools.partial(
            Once,
            device=circuit.device,
            method=method,
            postselects=circuit.postselects,
            has_score=bool(scores),
            results=results,
        )
        return [circuit.gates.bound().handle, *asked.weights, *scores, *results.values()]

    closed = jax.make_jaxpr(named_after(call.qnode.func, run))(HANDLE_STRUCT, *inputs)
    if once is None:
        return None
    closed = without_high_primitives(closed)
    # Wires that turned out to be known were computed all the same.
    closed, _ = dce(closed, [True] * len(closed.out_avals), [True] * len(closed.in_avals))
    return once(closed)


def _randomness(method: str | None, shots: Shots) -> Randomness:
    if method == TREE:
        return Randomness.TREE
    if method == SHARED:
        return Randomness.SHARED
    if method is not None:
        return Randomness.OUTCOMES
    return Randomness.SAMPLES if shots.total else Randomness.NONE
