"""Calls of QNodes on ``default.qubit``: one run, or one for each combination of outcomes."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml
from jax.core import eval_jaxpr

from bellhop.circuits.broadcasting import ROW_STRUCT, Rows
from bellhop.circuits.execution import is_measurement
from bellhop.circuits.rewrites import rewrites_of
from bellhop.circuits.statistics import Statistic
from bellhop.circuits.traced_device import TracedCircuit
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
    runs that each have other outcomes; it is differentiated as it is.

    Args:
        function: the quantum function, of the inputs.
        inputs: arrays.
        qnode: the QNode, for its options.
        wires: of its device.
        where: the QNode and its line, for errors.

    Returns:
        the measurements' values, in the structure that the quantum function returned.
    """
    statistics: list[Statistic] = []
    trees: list[Any] = []
    n_outcomes = 0
    rows = Rows(None, where)
    rewrites = rewrites_of(qnode)

    def run(outcomes: Any, row: Any, *inputs: Any) -> list[Any]:
        nonlocal statistics, trees, n_outcomes, rows
        rows = Rows(row, where)
        circuit = TracedCircuit(wires, where, outcomes, rows)
        circuit.rewrites = rewrites
        with circuit_scope(circuit), circuit.queue():
            result = function(*inputs)
        processes, out_tree = jax.tree.flatten(result, is_leaf=is_measurement)
        _check_measurements(processes, where)
        n_outcomes = circuit.n_outcomes
        if n_outcomes:
            _check_outcomes(qnode, n_outcomes, where)
        statistics = circuit.statistics(processes, str(qnode.diff_method))
        values, values_tree = jax.tree.flatten([statistic.values for statistic in statistics])
        trees = [out_tree, values_tree]
        return [circuit.weight(), *values] if n_outcomes else values

    closed = jax.make_jaxpr(run)(jax.ShapeDtypeStruct((), jnp.uint32), ROW_STRUCT, *inputs)
    out_tree, values_tree = trees

    def of_row(row: Any) -> Any:
        def once(outcomes: Any) -> list[Any]:
            return list(eval_jaxpr(closed.jaxpr, closed.consts, outcomes, row, *inputs))

        if n_outcomes:
            every = jax.lax.map(once, jnp.arange(2**n_outcomes, dtype=jnp.uint32))
            total, *sums = (jnp.sum(values, axis=0) for values in every)
            # Where postselection leaves nothing, there is no result: 0 / 0.
            flat = [value / total for value in sums]
        else:
            flat = once(jnp.uint32(0))
        values = jax.tree.unflatten(values_tree, flat)
        return [
            statistic.finish(value) for statistic, value in zip(statistics, values, strict=True)
        ]

    return jax.tree.unflatten(out_tree, rows.run(of_row))


def _check_measurements(processes: Sequence[Any], where: str) -> None:
    if not processes or not all(map(is_measurement, processes)):
        raise CompileError(
            f"{where}: a quantum function must return measurements (a pytree of qml.expval, "
            f"qml.probs, ...) and, on default.qubit, nothing else; it returned {processes}."
        )


def _check_outcomes(qnode: qml.QNode, n_outcomes: int, where: str) -> None:
    method = qnode.execute_kwargs.get("mcm_method")
    if method not in (None, "deferred", "tree-traversal"):
        raise CompileError(
            f"{where}: mcm_method={method!r} is not supported by bellhop on default.qubit, which "
            "goes through all outcomes: 'tree-traversal', or 'deferred'."
        )
    if n_outcomes > _MOST_OUTCOMES:
        raise CompileError(
            f"{where}: it has {n_outcomes} mid-circuit measurements; on default.qubit bellhop goes "
            f"through the outcomes of at most {_MOST_OUTCOMES}. Use "
            "qml.device('lightning.qubit', wires=...)."
        )
