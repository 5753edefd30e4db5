"""Traces a QNode's circuit; decides how often it runs and how results are computed of the runs."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml
from jax.extend.core import ClosedJaxpr

from bellhop._jax.private import dce
from bellhop.base.source import named_after
from bellhop.circuits.circuit.drawn_run import as_drawn_run
from bellhop.circuits.circuit.randomness import Randomness
from bellhop.circuits.circuit.shot_by_shot import one_by_one
from bellhop.circuits.derivatives.score import scored
from bellhop.circuits.gates.device import DeviceSpec, check_runs
from bellhop.circuits.measure.measurements import MeasurementList
from bellhop.circuits.measure.process import is_measurement
from bellhop.circuits.measure.processes import as_process, exact_statistics, sampled_statistics
from bellhop.circuits.measure.statistics import Statistic
from bellhop.circuits.memory import check_shots_fit
from bellhop.circuits.operations.kept_shots import (
    drops_shots,
    filled,
    may_differ,
    possible,
)
from bellhop.circuits.operations.seeds import offer_seed_of
from bellhop.circuits.operations.state_primitives import HANDLE
from bellhop.circuits.precision import Precision
from bellhop.circuits.vectorize.vectorize import vectorized
from bellhop.errors import CompileError
from bellhop.mesh.explicit_mesh import apart_from_mesh

HANDLE_STRUCT = jax.ShapeDtypeStruct(HANDLE.shape, HANDLE.dtype)

ONE_SHOT, TREE, SINGLE_BRANCH = "one-shot", "tree-traversal", "single-branch-statistics"


@dataclasses.dataclass(frozen=True)
class Shots:
    """How many shots a circuit has.

    Attributes:
        copies: the shots of each copy of the results; empty without shots.
        is_vector: whether the user asked for several copies of the results.
    """

    copies: tuple[int, ...]
    is_vector: bool

    @property
    def total(self) -> int:
        """The number of all shots; 0 without."""
        return sum(self.copies)


@dataclasses.dataclass(frozen=True)
class QNodeCall:
    """A call of a QNode in a program.

    Attributes:
        qnode: the QNode, for its options.
        function: its quantum function, of the inputs.
        inputs: the arguments that are arrays of the program.
        where: the QNode and its line, for errors.
    """

    qnode: qml.QNode
    function: Callable[..., Any]
    inputs: Sequence[Any]
    where: str

    @functools.cached_property
    def shots(self) -> Shots:
        """How many shots it has."""
        shots = self.qnode.shots
        if not shots.total_shots:
            return Shots((), False)
        copies = tuple(entry.shots for entry in shots.shot_vector for _ in range(entry.copies))
        return Shots(copies, shots.has_partitioned_shots)

    def chosen_method(self, circuit: Any, leaves: Sequence[Any]) -> str | None:
        """Return how a circuit with mid-circuit measurements is run; None for one without.

        Whatever it is called, with shots each of them is a run whose outcomes are drawn.

        Args:
            circuit: the circuit, at its end.
            leaves: what the quantum function returned.
        """
        if not circuit.has_mid_circuit:
            return None
        is_classical = not all(map(is_measurement, leaves))
        method = self.qnode.execute_kwargs.get("mcm_method")
        if method == SINGLE_BRANCH:
            return SINGLE_BRANCH
        if self.shots.total:
            return ONE_SHOT
        if method == ONE_SHOT:
            raise CompileError(
                f"{self.where}: mcm_method='one-shot' needs shots. Use mcm_method='tree-traversal'."
            )
        if is_classical and method is not None:
            raise CompileError(
                f"{self.where}: it returns values that are no measurements, which "
                f"mcm_method={method!r} makes several times. Return qml.sample or qml.expval of "
                f"outcomes, or set mcm_method={SINGLE_BRANCH!r}."
            )
        return SINGLE_BRANCH if is_classical else TREE


def check_number_of_shots(qnode: qml.QNode, where: str) -> None:
    """Refuse a number of shots that the program computes, or that no memory holds."""
    if isinstance(qnode.shots.total_shots, jax.core.Tracer):
        raise CompileError(
            f"{where}: its number of shots is computed in the program, and XLA's arrays have one "
            "shape. Make it static: qjit(static_argnums=...), or static_argnames."
        )
    check_shots_fit(qnode.shots.total_shots or 0, where)


@dataclasses.dataclass
class Traced:
    """A circuit as traced.

    Attributes:
        closed: from handle and inputs to handle and values; of one run, where the circuit goes
            through a tree of outcomes.
        device: where it runs, with the shots of one run.
        randomness: what becomes of random outcomes.
        finish: takes the values and returns the results in their structure.
        together: takes the results of all rows of a batch, and returns those of the batch.
    """

    closed: ClosedJaxpr
    device: DeviceSpec
    randomness: Randomness
    finish: Callable[[Sequence[Any]], Any]
    together: Callable[[Any], Any]


def trace_circuit(
    call: QNodeCall,
    record: Callable[..., tuple[Any, list[Any], Any]],
    inputs: Sequence[Any],
    device: DeviceSpec,
) -> Traced:
    """Trace a circuit with all of its runs.

    Args:
        call: the call of its QNode.
        record: takes the handle of a fresh state and the inputs; runs the quantum function and
            returns its circuit, and the leaves and the structure of its result.
        inputs: arrays.
        device: where it runs.
    """
    shots = call.shots
    method = None
    postselects = has_weight = has_score = False
    spec = device
    results: Any = None

    def run(handle: Any, *inputs: Any) -> list[Any]:
        nonlocal method, postselects, has_weight, has_score, results, spec
        circuit, leaves, out_tree = record(handle, *inputs)
        method = call.chosen_method(circuit, leaves)
        check_runs(
            device.name,
            call.where,
            is_tree=method == TREE,
            n_groups=0 if method == ONE_SHOT else len(shots.copies),
        )
        postselects = circuit.postselects and method != TREE
        has_weight = circuit.postselects and method == TREE
        spec = dataclasses.replace(device, shots=1 if method == ONE_SHOT else shots.total)
        circuit.device = spec
        circuit.groups = (1,) if method == ONE_SHOT else shots.copies
        circuit.is_one_shot = method == ONE_SHOT
        circuit.is_tree = method == TREE
        processes = [as_process(leaf, circuit) for leaf in leaves]
        asked = MeasurementList(circuit, is_tree=circuit.is_tree)
        if shots.total:
            statistics = sampled_statistics(circuit, processes)
        else:
            statistics = exact_statistics(asked, processes)
        scores = circuit.score() if method == ONE_SHOT else []
        has_score = bool(scores)
        for score in scores:
            fewest = min(shots.copies) if postselects else None
            statistics = scored(statistics, score, fewest)
        results = Results(statistics, out_tree, shots, circuit.precision, call.where)
        return [circuit.handle, *asked.weights, *scores, *results.values()]

    with apart_from_mesh(inputs) as plain:
        closed = jax.make_jaxpr(named_after(call.qnode.func, run))(HANDLE_STRUCT, *plain)
        # Wires that turned out to be known were computed all the same.
        closed, _ = dce(closed, [True] * len(closed.out_avals), [True] * len(closed.in_avals))
        closed = vectorized(closed)
        randomness = _randomness(method, shots)
        if postselects and not drops_shots(call.qnode):
            randomness = Randomness.ANEW if may_differ(closed) else Randomness.CONDITIONED
        if method == ONE_SHOT or postselects:
            closed = as_drawn_run(closed, call.where, until_kept=postselects)
        if method == ONE_SHOT:
            closed = one_by_one(
                closed,
                results.statistics,
                shots.copies,
                plain,
                postselects=postselects,
                has_score=has_score,
            )

    def finish(values: Sequence[Any]) -> Any:
        total = is_kept = None
        if has_weight:
            total, *values = values
            total = possible(total)
        elif postselects:
            is_kept, *values = values
        return results.finish(values, total=total, is_kept=is_kept)

    if randomness not in (Randomness.NONE, Randomness.TREE):
        offer_seed_of(call.qnode.device)
    together = functools.partial(results.of_all_rows, differ=method is not None)
    return Traced(closed, spec, randomness, finish, together)


@dataclasses.dataclass
class Results:
    """What a circuit returns, made of the values of its runs.

    Attributes:
        statistics: of a run, one for each leaf of what the quantum function returned.
        tree: the structure of that.
        shots: of the circuit.
        precision: of measurements.
        where: the QNode, for errors.
    """

    statistics: Sequence[Statistic]
    tree: Any
    shots: Shots
    precision: Precision
    where: str

    def values(self) -> list[Any]:
        """Return the values of a run, one array after the other."""
        return jax.tree.leaves([statistic.values for statistic in self.statistics])

    def finish(self, values: Sequence[Any], *, total: Any = None, is_kept: Any = None) -> Any:
        """Return the results in their structure.

        Args:
            values: of all runs.
            total: what those of measurements are to be divided by, if anything.
            is_kept: for each shot, or for all, whether they were kept, if some may not be.
        """
        tree = jax.tree.structure([statistic.values for statistic in self.statistics])
        each: list[Any] = jax.tree.unflatten(tree, list(values))
        if total is not None:
            each = self._changed(each, lambda _, array: array / total)
        if is_kept is not None:
            each = self._changed(each, lambda s, array: self._kept(s, array, is_kept))
        if not self.shots.total:
            return self._end(each)
        ends = list(itertools.accumulate(self.shots.copies))

        def copy(number: int) -> Any:
            of_shots = slice(ends[number] - self.shots.copies[number], ends[number])

            def part(statistic: Statistic, value: Any) -> Any:
                place = of_shots if statistic.is_of_shots else number
                return jax.tree.map(lambda array: array[place], value)

            return self._end(list(map(part, self.statistics, each)))

        return tuple(map(copy, range(len(ends)))) if self.shots.is_vector else copy(0)

    def of_all_rows(self, rows: Any, *, differ: bool) -> Any:
        """Return the results of a batch: what is no measurement is not of the batch.

        Args:
            rows: the results of each, with the axis of rows.
            differ: whether such values may differ from row to row, as outcomes do.
        """
        if differ:
            return rows
        are_measured = [statistic.is_measured for statistic in self.statistics]
        return without_rows(rows, self.tree, are_measured, is_vector=self.shots.is_vector)

    def _changed(self, each: Sequence[Any], change: Callable[[Statistic, Any], Any]) -> list[Any]:
        """Change the values of measurements, but no others."""
        return [
            jax.tree.map(functools.partial(change, statistic), values)
            if statistic.is_measured
            else values
            for statistic, values in zip(self.statistics, each, strict=True)
        ]

    def _kept(self, statistic: Statistic, values: Any, is_kept: Any) -> Any:
        """Return values of a statistic with what stands for shots that were not kept."""
        if statistic.is_of_shots:
            return filled(values, is_kept, self.where)
        # Means over shots are those of the shots that were kept already.
        return values if is_kept.ndim else jnp.where(is_kept, values, jnp.nan)

    def _end(self, each: Sequence[Any]) -> Any:
        results = [s.finish(values) for s, values in zip(self.statistics, each, strict=True)]
        return jax.tree.unflatten(
            self.tree, self._changed(results, lambda _, r: self.precision.of(r))
        )


def without_rows(rows: Any, tree: Any, are_measured: Sequence[bool], *, is_vector: bool) -> Any:
    """Return the results of all rows of a batch, with one of each value that is no measurement.

    Args:
        rows: the results, with the axis of rows; of each copy, where shots are a vector.
        tree: the structure of the results.
        are_measured: which of its leaves are measurements.
        is_vector: whether shots are a vector.
    """

    def copy(rows: Any) -> Any:
        leaves = [
            values if is_measured else jax.tree.map(lambda array: array[0], values)
            for values, is_measured in zip(tree.flatten_up_to(rows), are_measured, strict=True)
        ]
        return jax.tree.unflatten(tree, leaves)

    return tuple(map(copy, rows)) if is_vector else copy(rows)


def _randomness(method: str | None, shots: Shots) -> Randomness:
    if method == TREE:
        return Randomness.TREE
    if method is not None:
        return Randomness.OUTCOMES
    return Randomness.SAMPLES if shots.total else Randomness.NONE
