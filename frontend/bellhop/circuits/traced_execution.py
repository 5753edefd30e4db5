"""Calls of QNodes on ``default.qubit``: one run, or one for each combination of outcomes."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml
from jax.core import eval_jaxpr

from bellhop.circuits.broadcasting import ROW_STRUCT, Rows
from bellhop.circuits.execution import (
    ONE_SHOT,
    Shots,
    check_measurements,
    check_postselection,
    finished,
    is_measurement,
    shots_of,
)
from bellhop.circuits.memory import check_state_fits
from bellhop.circuits.precision import in_precision_of
from bellhop.circuits.rewrites import rewrites_of
from bellhop.circuits.seeds import offer_seed_of, random_key
from bellhop.circuits.statistics import Statistic
from bellhop.circuits.traced_device import TracedCircuit
from bellhop.circuits.traced_shots import ShotsOfWay, draw
from bellhop.circuits.wire_faults import WireFaults
from bellhop.circuits.wires import WireMap
from bellhop.errors import CompileError
from bellhop.tracing import circuit_scope

# A circuit runs twice as often for each mid-circuit measurement.
_MOST_OUTCOMES = 12


def run_traced(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    qnode: qml.QNode,
    wires: WireMap,
    where: str,
) -> Any:
    """Trace a call of a QNode on ``default.qubit``.

    With mid-circuit measurements, results are exact means over all outcomes, by the sum over
    runs that each have other outcomes; it is differentiated as it is.  With shots, each shot
    falls to one of these runs, which draws its samples.

    Args:
        function: the quantum function, of the inputs.
        inputs: arrays.
        qnode: the QNode, for its options.
        wires: of its device.
        where: the QNode and its line, for errors.

    Returns:
        the measurements' values, in the structure that the quantum function returned.

    Raises:
        CompileError: where its state does not fit into memory.
    """
    check_state_fits(len(wires), where)
    statistics: list[Statistic] = []
    trees: list[Any] = []
    n_outcomes = 0
    rows = Rows(None, where)
    rewrites = rewrites_of(qnode)
    shots = shots_of(qnode)
    wire_faults = WireFaults(wires, where)

    def run(outcomes: Any, way_of_shot: Any, total: Any, key: Any, row: Any, *inputs: Any) -> Any:
        nonlocal statistics, trees, n_outcomes, rows
        rows = Rows(row, where)
        here = ShotsOfWay(key, way_of_shot == outcomes, total, shots.copies)
        on_way = here if shots.total else None
        circuit = TracedCircuit(wires, where, outcomes, rows, on_way, wire_faults)
        circuit.rewrites = rewrites
        with circuit_scope(circuit), circuit.queue():
            result = function(*inputs)
        processes, out_tree = jax.tree.flatten(result, is_leaf=is_measurement)
        check_measurements(processes, where)
        n_outcomes = circuit.n_outcomes
        if n_outcomes:
            _check_outcomes(qnode, n_outcomes, shots, where)
        statistics = circuit.statistics(processes, str(qnode.diff_method))
        values, values_tree = jax.tree.flatten([statistic.values for statistic in statistics])
        trees = [out_tree, values_tree]
        return [circuit.weight(), circuit.fault, *values]

    ways = jax.ShapeDtypeStruct((shots.total,), jnp.uint32)
    no_key = jax.random.wrap_key_data(jnp.zeros(2, jnp.uint32), impl="threefry2x32")
    closed = jax.make_jaxpr(run)(
        jax.ShapeDtypeStruct((), jnp.uint32), ways, jnp.ones(()), no_key, ROW_STRUCT, *inputs
    )
    check_state_fits(len(wires), where, rows=rows.size)
    out_tree, values_tree = trees
    if shots.total:
        offer_seed_of(qnode.device)

    def of_row(row: Any) -> Any:
        key = random_key(row, *inputs) if shots.total else no_key

        def once(outcomes: Any, way_of_shot: Any, total: Any) -> list[Any]:
            operands = [outcomes, way_of_shot, total, key, row, *inputs]
            return list(eval_jaxpr(closed.jaxpr, closed.consts, *operands))

        def of_all_ways(way_of_shot: Any, total: Any) -> Any:
            every = jax.lax.map(
                lambda outcomes: once(outcomes, way_of_shot, total),
                jnp.arange(2**n_outcomes, dtype=jnp.uint32),
            )
            weights, faults, *values = every
            return weights, faults, [jnp.sum(each, axis=0, dtype=each.dtype) for each in values]

        no_ways = jnp.zeros(shots.total, jnp.uint32)
        if not n_outcomes:
            _, faults, *flat = once(jnp.uint32(0), no_ways, jnp.ones(()))
            weights = None
        else:
            weights, faults, flat = of_all_ways(no_ways, jnp.ones(()))
            total = jnp.sum(weights)
            if shots.total:
                of_shots = draw(key, jax.lax.stop_gradient(weights), shots.total)
                _, _, flat = of_all_ways(of_shots.astype(jnp.uint32), total)
            else:
                # Where postselection leaves nothing, there is no result: 0 / 0.
                flat = [value / total for value in flat]
        flat = wire_faults.checked(flat, faults, weights)
        values = jax.tree.unflatten(values_tree, flat)
        return finished(values, statistics, out_tree, shots)

    return in_precision_of([*closed.consts, *inputs], rows.run(of_row))


def _check_outcomes(qnode: qml.QNode, n_outcomes: int, shots: Shots, where: str) -> None:
    method = qnode.execute_kwargs.get("mcm_method")
    check_postselection(qnode, where)
    if method not in (None, "deferred", "tree-traversal") and (
        method != ONE_SHOT or not shots.total
    ):
        raise CompileError(
            f"{where}: mcm_method={method!r} is not supported by bellhop on default.qubit, which "
            "goes through all outcomes. Use 'tree-traversal' or 'deferred'."
        )
    if n_outcomes > _MOST_OUTCOMES:
        raise CompileError(
            f"{where}: it has {n_outcomes} mid-circuit measurements; on default.qubit bellhop goes "
            f"through the outcomes of at most {_MOST_OUTCOMES}. Use "
            "qml.device('lightning.qubit', wires=...)."
        )
