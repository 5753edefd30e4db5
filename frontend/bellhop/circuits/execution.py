"""How often a circuit runs, and what its results are made of."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr

from bellhop.circuits.circuit_primitive import Randomness
from bellhop.circuits.device import DeviceSpec
from bellhop.circuits.primitives import HANDLE, restart_p
from bellhop.circuits.statistics import Statistic, exact_statistics, sampled_statistics
from bellhop.errors import CompileError

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
        closed: from handle and inputs to handle and results.
        out_tree: structure of the results.
        device: where it runs, with the shots of one run.
        randomness: what becomes of random outcomes.
    """

    closed: ClosedJaxpr
    out_tree: Any
    device: DeviceSpec
    randomness: Randomness


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
    finish: list[Callable[[Any], Any]] = []
    trees: list[Any] = []
    method = None
    randomness = Randomness.NONE
    spec = device

    def run(handle: Any, *inputs: Any) -> list[Any]:
        nonlocal method, randomness, spec, finish, trees
        circuit, result = record(handle, *inputs)
        leaves, out_tree = jax.tree.flatten(result, is_leaf=is_measurement)
        _check_result(leaves, circuit.has_mid_circuit, shots, where)
        method = _method(qnode, leaves, shots, where) if circuit.has_mid_circuit else None
        is_random = bool(shots.total) or circuit.has_mid_circuit
        randomness = (
            Randomness.TREE
            if method == TREE
            else Randomness.DRAWN
            if is_random
            else Randomness.NONE
        )
        spec = dataclasses.replace(device, shots=1 if method == ONE_SHOT else shots.total)
        circuit.device = spec
        statistics = _statistics(circuit, leaves, shots, is_mean=method == TREE)
        finish = [statistic.finish for statistic in statistics]
        values = [statistic.values for statistic in statistics]
        if method not in (ONE_SHOT, TREE):
            # All that there is; loops of several runs finish when they end.
            values, out_tree = _finished(values, finish, out_tree, shots)
        flat, values_tree = jax.tree.flatten(values)
        trees = [out_tree, values_tree]
        return [circuit.handle, *flat]

    closed = jax.make_jaxpr(run)(HANDLE_STRUCT, *inputs)
    out_tree, values_tree = trees
    if method in (ONE_SHOT, TREE):
        runs = _one_by_one(shots.total) if method == ONE_SHOT else _weighted
        final_tree: Any = None

        def loop(handle: Any, *inputs: Any) -> list[Any]:
            nonlocal final_tree
            once = lambda handle: _split(eval_jaxpr(closed.jaxpr, closed.consts, handle, *inputs))
            handle, flat = runs(once, handle)
            values = jax.tree.unflatten(values_tree, flat)
            results, final_tree = _finished(values, finish, out_tree, shots)
            return [handle, *results]

        closed = jax.make_jaxpr(loop)(HANDLE_STRUCT, *inputs)
        return Traced(closed, final_tree, spec, randomness)
    return Traced(closed, out_tree, spec, randomness)


def _split(results: Sequence[Any]) -> tuple[Any, list[Any]]:
    handle, *values = results
    return handle, values


def _statistics(
    circuit: Any, leaves: Sequence[Any], shots: Shots, *, is_mean: bool
) -> list[Statistic]:
    processes = [leaf for leaf in leaves if is_measurement(leaf)]
    for process in processes:
        circuit.check_observable(process.obs)
    measured = iter(
        sampled_statistics(circuit, processes)
        if shots.total
        else exact_statistics(circuit, processes, is_mean=is_mean)
    )
    return [next(measured) if is_measurement(leaf) else _Classical(leaf) for leaf in leaves]


def _Classical(leaf: Any) -> Statistic:  # noqa: N802
    return Statistic(jnp.asarray(leaf))


def _finished(
    values: Sequence[Any], finish: Sequence[Callable[[Any], Any]], out_tree: Any, shots: Shots
) -> tuple[list[Any], Any]:
    """Return the leaves and the structure of the results of all runs."""

    def copy(start: int | None, stop: int | None) -> Any:
        part = jax.tree.map(lambda array: array[start:stop], values) if shots.total else values
        results = [function(value) for function, value in zip(finish, part, strict=True)]
        return jax.tree.unflatten(out_tree, results)

    if not shots.is_vector:
        return jax.tree.flatten(copy(None, None))
    ends = [sum(shots.copies[: number + 1]) for number in range(len(shots.copies))]
    starts = [0, *ends[:-1]]
    return jax.tree.flatten(tuple(map(copy, starts, ends)))


def _one_by_one(total: int) -> Callable[..., tuple[Any, Any]]:
    """Run the circuit once for each shot; return the samples of all."""

    def runs(once: Callable[[Any], Any], handle: Any) -> tuple[Any, Any]:
        def step(handle: Any, _: Any) -> tuple[Any, Any]:
            handle, values = once(handle)
            return restart_p.bind(handle)[0], values

        handle, stacked = jax.lax.scan(step, handle, None, length=total)
        return handle, [value.reshape(-1, *value.shape[2:]) for value in stacked]

    return runs


def _weighted(once: Callable[[Any], Any], handle: Any) -> tuple[Any, Any]:
    """Run the circuit for each combination of outcomes; return the means over them."""

    def add(handle: Any, total: Any, sums: Sequence[Any]) -> Any:
        handle, values = once(handle)
        handle, weight, more = restart_p.bind(handle)
        sums = [sum_ + weight * value for sum_, value in zip(sums, values, strict=True)]
        return handle, total + weight, sums, more

    shapes = jax.eval_shape(once, HANDLE_STRUCT)[1]
    zeros = [jnp.zeros(shape.shape, jnp.promote_types(shape.dtype, float)) for shape in shapes]
    handle, total, sums, _ = jax.lax.while_loop(
        lambda state: state[3],
        lambda state: add(*state[:3]),
        (handle, jnp.zeros(()), zeros, jnp.array(True)),
    )
    # Where postselection leaves nothing, there is no result: 0 / 0.
    return handle, [sum_ / total for sum_ in sums]


def _method(qnode: qml.QNode, leaves: Sequence[Any], shots: Shots, where: str) -> str:
    method = qnode.execute_kwargs.get("mcm_method")
    mode = qnode.execute_kwargs.get("postselect_mode")
    if mode == "hw-like":
        raise CompileError(
            f"{where}: postselect_mode='hw-like' drops shots, and XLA's arrays have one shape; it "
            "is not supported by bellhop. With 'fill-shots' (the default) every shot is "
            "postselected."
        )
    is_classical = not all(map(is_measurement, leaves))
    if method is None:
        method = ONE_SHOT if shots.total else SINGLE_BRANCH if is_classical else TREE
    if method not in (ONE_SHOT, TREE, SINGLE_BRANCH):
        raise CompileError(
            f"{where}: mcm_method={method!r} is not supported by bellhop; there are 'one-shot' "
            "(with shots), 'tree-traversal' (without), and 'single-branch-statistics'."
        )
    if (method == ONE_SHOT) != bool(shots.total) and method != SINGLE_BRANCH:
        raise CompileError(
            f"{where}: mcm_method={method!r} {'needs' if method == ONE_SHOT else 'is without'} "
            f"shots. Use mcm_method={TREE if method == ONE_SHOT else ONE_SHOT!r}."
        )
    if is_classical and method != SINGLE_BRANCH:
        raise CompileError(
            f"{where}: it returns values that are no measurements, which mcm_method={method!r} "
            "makes several times. Return qml.sample or qml.expval of outcomes, or set "
            f"mcm_method={SINGLE_BRANCH!r}."
        )
    return method


def _check_result(leaves: Sequence[Any], has_mid_circuit: bool, shots: Shots, where: str) -> None:
    is_number = lambda leaf: (
        isinstance(leaf, jax.Array | bool | int | float | complex) or hasattr(leaf, "__array__")
    )
    if not any(map(is_measurement, leaves)) and not (has_mid_circuit and leaves):
        raise CompileError(
            f"{where}: a quantum function must return measurements (a pytree of qml.expval, "
            f"qml.probs, ...); it returned {list(leaves)}."
        )
    for leaf in leaves:
        if not is_measurement(leaf) and not is_number(leaf):
            raise CompileError(
                f"{where}: a quantum function returns measurements and numbers; it returned a "
                f"{type(leaf).__name__}."
            )
    if shots.total and not all(map(is_measurement, leaves)):
        raise CompileError(
            f"{where}: with shots, a quantum function returns measurements only; it returned "
            f"{list(leaves)}."
        )
