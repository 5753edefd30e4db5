"""Calls of QNodes in a program, whatever runs their circuits."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import pennylane as qml
from jax.core import eval_jaxpr

from bellhop.base.source import set_function_name
from bellhop.base.types import Operand
from bellhop.circuits.ir.broadcasting import ROW_STRUCT, Rows
from bellhop.circuits.ir.measurement_types import is_measurement
from bellhop.circuits.ir.memory import check_shots_fit
from bellhop.circuits.ir.results import Shots, without_rows
from bellhop.errors import CompileError

ONE_SHOT, TREE, SINGLE_BRANCH = "one-shot", "tree-traversal", "single-branch-statistics"
# As one-shot, where shots with the same outcomes share a run.
SHARED = "shared runs"


@dataclass(frozen=True)
class QNodeCall:
    """A call of a QNode in a program.

    Attributes:
        qnode: the QNode, for its options.
        function: its quantum function, of the inputs, which is played on circuits.
        inputs: the arguments that are arrays of the program.
        where: the QNode and its line, for errors.
        obstacle: why no engine runs it, where the program does.
    """

    qnode: qml.QNode
    function: Any
    inputs: Sequence[Any]
    where: str
    obstacle: str = ""

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

    def results_of_rows(self, run_row: Callable[..., tuple[Any, Sequence[Any], Any]]) -> Any:
        """Return the results of a circuit that is traced into the program: of one run, or a batch.

        Args:
            run_row: takes the batches of parameters, the number of the row and the inputs; returns
                the results of the row, and the leaves and the structure of what the quantum
                function returned; no results, None, where it is to be run otherwise.
        """
        rows = Rows(self.where)
        are_measured: list[bool] = []
        tree: Any = None

        def run(row: Operand, *inputs: Operand) -> Any:
            nonlocal are_measured, tree
            results, leaves, tree = run_row(rows.at(row), row, *inputs)
            are_measured = list(map(is_measurement, leaves))
            return results

        # The trace finds out how many rows there are.
        closed, shapes = jax.make_jaxpr(set_function_name(self.qnode.func, run), return_shape=True)(
            ROW_STRUCT, *self.inputs
        )
        if shapes is None:
            return None
        returned = jax.tree.structure(shapes)

        def of_row(row: Operand) -> Any:
            leaves = eval_jaxpr(closed.jaxpr, closed.consts, row, *jax.tree.leaves(self.inputs))
            return jax.tree.unflatten(returned, leaves)

        return rows.run(
            of_row,
            lambda all_: without_rows(all_, tree, are_measured, is_vector=self.shots.is_vector),
        )


# Of 32 bits with a sign are the sizes that XLA's operations take.
MOST_SHOTS = 2**31 - 1


def check_number_of_shots(qnode: qml.QNode, where: str) -> None:
    """Refuse a number of shots that the program computes, or that XLA or no memory holds."""
    if isinstance(qnode.shots.total_shots, jax.core.Tracer):
        raise CompileError(
            f"{where}: its number of shots is computed in the program, and XLA's arrays have one "
            "shape. Make it static: qjit(static_argnums=...), or static_argnames."
        )
    if any(isinstance(entry.shots, bool) for entry in qnode.shots.shot_vector):
        raise CompileError(
            f"{where}: its number of shots is True, expected an integer. Set one: "
            "qml.set_shots(qnode, shots=100)."
        )
    shots = qnode.shots.total_shots or 0
    check_shots_fit(shots, where)
    if shots > MOST_SHOTS:
        raise CompileError(
            f"{where}: {shots} shots are more than the {MOST_SHOTS} that XLA counts outcomes of. "
            "Run the circuit several times, with fewer shots each."
        )
