"""Circuits that are traced into the program: one run of each, or a batch of them."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.core import eval_jaxpr

from bellhop.base.source import named_after
from bellhop.base.types import Operand
from bellhop.circuits.circuit.results import without_rows
from bellhop.circuits.circuit.traced_circuit import QNodeCall
from bellhop.circuits.gates.broadcasting import ROW_STRUCT, Rows
from bellhop.circuits.measure.process import is_measurement


def results_of_rows(call: QNodeCall, run_row: Callable[..., tuple[Any, Sequence[Any], Any]]) -> Any:
    """Return the results of a circuit that is traced into the program: of one run, or of a batch.

    Args:
        call: the call of its QNode.
        run_row: takes the batches of parameters, the number of the row and the inputs; returns the
            results of the row, and the leaves and the structure of what the quantum function
            returned; no results, None, where it is to be run otherwise.
    """
    rows = Rows(call.where)
    are_measured: list[bool] = []
    tree: Any = None

    def run(row: Operand, *inputs: Operand) -> Any:
        nonlocal are_measured, tree
        results, leaves, tree = run_row(rows.at(row), row, *inputs)
        are_measured = list(map(is_measurement, leaves))
        return results

    # The trace finds out how many rows there are.
    closed, shapes = jax.make_jaxpr(named_after(call.qnode.func, run), return_shape=True)(
        ROW_STRUCT, *call.inputs
    )
    if shapes is None:
        return None
    returned = jax.tree.structure(shapes)

    def of_row(row: Operand) -> Any:
        leaves = eval_jaxpr(closed.jaxpr, closed.consts, row, *jax.tree.leaves(call.inputs))
        return jax.tree.unflatten(returned, leaves)

    return rows.run(
        of_row,
        lambda all_: without_rows(all_, tree, are_measured, is_vector=call.shots.is_vector),
    )
