"""Traces a QNode's circuit; decides how often it runs and how results are computed of the runs."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr

from bellhop.circuits.circuit.circuit_primitive import Randomness
from bellhop.circuits.gates.device import DeviceSpec
from bellhop.circuits.measure.computed_wires import on_known_wires
from bellhop.circuits.measure.sampling import sampled_statistics
from bellhop.circuits.measure.statistics import Statistic, exact_statistics
from bellhop.circuits.memory import check_shots_fit
from bellhop.circuits.operations.kept_shots import (
    drops_shots,
    filled,
    may_differ,
    possible,
    until_kept,
)
from bellhop.circuits.operations.seeds import offer_seed_of
from bellhop.circuits.operations.state_primitives import HANDLE, restart_p
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


def check_number_of_shots(qnode: qml.QNode, where: str) -> None:
    """Refuse a number of shots that the program computes, or that no memory holds."""
    if isinstance(qnode.shots.total_shots, jax.core.Tracer):
        raise CompileError(
            f"{where}: its number of shots is computed in the program, and XLA's arrays have one "
            "shape. Make it static: qjit(static_argnums=...), or static_argnames."
        )
    check_shots_fit(qnode.shots.total_shots or 0, where)


def shots_of(qnode: qml.QNode) -> Shots:
    """Return the shots of a QNode."""
    shots = qnode.shots
    if not shots.total_shots:
        return Shots((), False)
    copies = tuple(entry.shots for entry in shots.shot_vector for _ in range(entry.copies))
    return Shots(copies, shots.has_partitioned_shots)


@dataclasses.dataclass
class Traced:
    """A circuit as traced.

    Attributes:
        closed: from handle and inputs to handle and values; of one run, where the circuit goes
            through a tree of outcomes.
        device: where it runs, with the shots of one run.
        randomness: what becomes of random outcomes.
        finish: takes the values and returns the results in their structure.
    """

    closed: ClosedJaxpr
    device: DeviceSpec
    randomness: Randomness
    finish: Callable[[Sequence[Any]], Any]


def is_measurement(value: Any) -> bool:
    """Tell whether a leaf of a quantum function's result is a measurement."""
    return isinstance(value, qml.measurements.MeasurementProcess)


def trace_circuit(
    record: Callable[..., tuple[Any, Any]],
    inputs: Sequence[Any],
    *,
    qnode: qml.QNode,
    device: DeviceSpec,
    where: str,
) -> Traced:
    """Trace a circuit with all of its runs.

    Args:
        record: takes the handle of a fresh state and the inputs; runs the quantum function and
            returns its circuit and its result.
        inputs: arrays.
        qnode: the QNode, for its shots and its ``mcm_method``.
        device: where it runs.
        where: the QNode and its line, for errors.
    """
    shots = shots_of(qnode)
    trees: list[Any] = []
    statistics: list[Statistic] = []
    method = None
    postselects = False
    spec = device
    precision = Precision()

    def run(handle: Any, *inputs: Any) -> list[Any]:
        nonlocal method, postselects, precision, spec, statistics, trees
        circuit, result = record(handle, *inputs)
        precision = circuit.precision
        leaves, out_tree = jax.tree.flatten(result, is_leaf=is_measurement)
        check_result(leaves, where)
        method = None
        if circuit.has_mid_circuit:
            is_classical = not all(map(is_measurement, leaves))
            method = chosen_method(qnode, shots, is_classical=is_classical, where=where)
        postselects = circuit.postselects and method != TREE
        spec = dataclasses.replace(device, shots=1 if method == ONE_SHOT else shots.total)
        circuit.device = spec
        circuit.groups = (1,) if method == ONE_SHOT else shots.copies
        statistics = _statistics(circuit, leaves, shots, method)
        values, values_tree = jax.tree.flatten([statistic.values for statistic in statistics])
        trees = [out_tree, values_tree]
        return [circuit.handle, *values]

    with apart_from_mesh(inputs) as plain:
        closed = vectorized(jax.make_jaxpr(run)(HANDLE_STRUCT, *plain))
        out_tree, values_tree = trees
        randomness = _randomness(method, shots)
        if postselects:
            if not drops_shots(qnode):
                randomness = Randomness.ANEW if may_differ(closed) else Randomness.CONDITIONED
            closed = until_kept(closed)
        if method == ONE_SHOT:
            closed = _one_by_one(closed, statistics, shots, plain, postselects=postselects)

    def finish(results: Sequence[Any]) -> Any:
        is_kept, *results = results if postselects else (None, *results)
        values = jax.tree.unflatten(values_tree, results)
        measured = statistics
        if method == TREE:
            total, *sums = values
            total = possible(total)
            values, measured = jax.tree.map(lambda sum_: sum_ / total, sums), statistics[1:]
        elif postselects:
            values = [
                kept(value, is_kept, statistic, where)
                for value, statistic in zip(values, statistics, strict=True)
            ]
        return finished(values, measured, out_tree, shots, precision)

    if randomness not in (Randomness.NONE, Randomness.TREE):
        offer_seed_of(qnode.device)
    return Traced(closed, spec, randomness, finish)


def kept(values: Any, is_kept: Any, statistic: Statistic, where: str) -> Any:
    """Return the values of a statistic with what stands for shots that were not kept."""
    if not statistic.is_measured:
        return values
    if statistic.is_of_shots:
        return jax.tree.map(lambda samples: filled(samples, is_kept, where), values)
    # Means over shots are those of the shots that were kept already.
    return (
        values if is_kept.ndim else jax.tree.map(lambda v: jnp.where(is_kept, v, jnp.nan), values)
    )


def _randomness(method: str | None, shots: Shots) -> Randomness:
    if method == TREE:
        return Randomness.TREE
    if method is not None:
        return Randomness.OUTCOMES
    return Randomness.SAMPLES if shots.total else Randomness.NONE


def _statistics(
    circuit: Any, leaves: Sequence[Any], shots: Shots, method: str | None
) -> list[Statistic]:
    processes = [leaf for leaf in leaves if is_measurement(leaf)]
    circuit.take_observables(processes)
    processes = [on_known_wires(circuit, process) for process in processes]
    if shots.total:
        measured = sampled_statistics(circuit, processes)
    else:
        measured = exact_statistics(circuit, processes, is_tree=method == TREE)
    if method == TREE:
        return measured
    in_order = iter(measured)

    def statistic(leaf: Any) -> Statistic:
        if is_measurement(leaf):
            return next(in_order)
        value = jnp.asarray(leaf)
        if method == ONE_SHOT:
            return Statistic(circuit.of_each_shot(value), is_of_shots=True, is_measured=False)
        value = circuit.mean_of_groups(value) if shots.total else value
        return Statistic(value, is_measured=False)

    return list(map(statistic, leaves))


def finished(
    values: Sequence[Any],
    statistics: Sequence[Statistic],
    out_tree: Any,
    shots: Shots,
    precision: Precision,
) -> Any:
    """Return the results of all runs, in their structure; measurements are in a precision."""
    ends = list(itertools.accumulate(shots.copies))

    def end(statistic: Statistic, value: Any) -> Any:
        result = statistic.finish(value)
        return precision.of(result) if statistic.is_measured else result

    def result(statistic: Statistic, value: Any, number: int) -> Any:
        of_shots = slice(ends[number] - shots.copies[number], ends[number])
        part = of_shots if statistic.is_of_shots else number
        return end(statistic, jax.tree.map(lambda array: array[part], value))

    def copy(number: int) -> Any:
        results = [result(s, v, number) for s, v in zip(statistics, values, strict=True)]
        return jax.tree.unflatten(out_tree, results)

    if shots.is_vector:
        return tuple(map(copy, range(len(shots.copies))))
    if shots.total:
        return copy(0)
    results = list(map(end, statistics, values))
    return jax.tree.unflatten(out_tree, results)


def _one_by_one(
    closed: ClosedJaxpr,
    statistics: Sequence[Statistic],
    shots: Shots,
    inputs: Sequence[Any],
    *,
    postselects: bool,
) -> ClosedJaxpr:
    """Run a circuit of one shot for each shot; return means over groups, and all samples.

    Where it postselects, it gives first whether it was kept, and so does the result.
    """
    of_shots = [
        statistic.is_of_shots for statistic in statistics for _ in jax.tree.leaves(statistic.values)
    ]
    sizes = np.array(shots.copies)
    group_of_shot = np.repeat(np.arange(len(sizes)), sizes)

    def loop(handle: Any, *inputs: Any) -> list[Any]:
        def step(carried: Any, group: Any) -> tuple[Any, Any]:
            handle, sums = carried
            handle, *values = eval_jaxpr(closed.jaxpr, closed.consts, handle, *inputs)
            is_kept = values.pop(0) if postselects else None
            means = [value[0] for value, yes in zip(values, of_shots, strict=True) if not yes]
            samples = [value[0] for value, yes in zip(values, of_shots, strict=True) if yes]
            if is_kept is None:
                handle, *_ = restart_p.bind(handle)
            else:
                means = [jnp.where(is_kept, mean, 0) for mean in means]
                samples = [is_kept, *samples]
            sums = [sum_.at[group].add(mean) for sum_, mean in zip(sums, means, strict=True)]
            return (handle, sums), samples

        results = closed.out_avals[2 if postselects else 1 :]
        zeros = [
            jnp.zeros((len(sizes), *aval.shape[1:]), aval.dtype)
            for aval, yes in zip(results, of_shots, strict=True)
            if not yes
        ]
        (handle, sums), stacked = jax.lax.scan(step, (handle, zeros), group_of_shot)
        kept, n_kept = [], sizes
        if postselects:
            kept = [stacked.pop(0)]
            n_kept = jnp.zeros(len(sizes)).at[group_of_shot].add(kept[0])
        means = iter(sum_ / n_kept.reshape(-1, *[1] * (sum_.ndim - 1)) for sum_ in sums)
        samples = iter(stacked)
        return [handle, *kept, *(next(samples) if yes else next(means) for yes in of_shots)]

    return jax.make_jaxpr(loop)(HANDLE_STRUCT, *inputs)


def chosen_method(qnode: qml.QNode, shots: Shots, *, is_classical: bool, where: str) -> str:
    """Return how a circuit with mid-circuit measurements is run.

    Whatever it is called, with shots each of them is a run whose outcomes are drawn.

    Args:
        qnode: the QNode, for its ``mcm_method``.
        shots: its shots.
        is_classical: whether it returns other values than measurements.
        where: the QNode and its line, for errors.
    """
    method = qnode.execute_kwargs.get("mcm_method")
    if method == SINGLE_BRANCH:
        return SINGLE_BRANCH
    if shots.total:
        return ONE_SHOT
    if method == ONE_SHOT:
        raise CompileError(
            f"{where}: mcm_method='one-shot' needs shots. Use mcm_method='tree-traversal'."
        )
    if is_classical and method is not None:
        raise CompileError(
            f"{where}: it returns values that are no measurements, which mcm_method={method!r} "
            "makes several times. Return qml.sample or qml.expval of outcomes, or set "
            f"mcm_method={SINGLE_BRANCH!r}."
        )
    return SINGLE_BRANCH if is_classical else TREE


def check_result(leaves: Sequence[Any], where: str) -> None:
    """Refuse the result of a quantum function that is neither measurements nor numbers."""
    is_number = lambda leaf: (
        isinstance(leaf, jax.Array | bool | int | float | complex) or hasattr(leaf, "__array__")
    )
    if not leaves:
        raise CompileError(
            f"{where}: a quantum function must return something: measurements (a pytree of "
            "qml.expval, qml.probs, ...), numbers or arrays."
        )
    for leaf in leaves:
        if not is_measurement(leaf) and not is_number(leaf):
            raise CompileError(
                f"{where}: a quantum function returns measurements and numbers; it returned a "
                f"{type(leaf).__name__}."
            )
