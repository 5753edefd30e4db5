"""``Circuit``: a quantum function, its inputs and its execution settings."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import jax
from jax.core import eval_jaxpr

from bellhop.base.source import set_function_name
from bellhop.base.types import Operand
from bellhop.circuits.ir.broadcasting import Rows
from bellhop.circuits.ir.circuit_config import CircuitConfig, Shots
from bellhop.circuits.ir.execution_plan import ExecutionPlan
from bellhop.circuits.ir.interpreter import GateReceiver, Interpreter
from bellhop.circuits.ir.measurement_types import is_measurement
from bellhop.circuits.ir.results import drop_duplicate_rows
from bellhop.tracing.current_circuit import CurrentCircuit


class GateFunction(Protocol):
    """Interface of a quantum function, which is traced once to a jaxpr with gates.

    Backends see a quantum function only through this interface; ``QuantumFunction`` in ``front``
    implements it.
    """

    def get_traced(
        self, where: str, inputs: Sequence[Any], circuit: CurrentCircuit | None = None
    ) -> Any:
        """Return the quantum function as a jaxpr; only the first call traces it.

        Later calls return the same jaxpr and ignore all arguments.

        Args:
            where: the QNode's name and line, for error messages.
            inputs: the arguments of the quantum function that are arrays.
            circuit: the circuit that will receive the gates; None if it does not exist yet.

        Returns:
            a ``TracedQuantumFunction``: the jaxpr with gates, and a template of the returned
            leaves.
        """

    def apply_to_circuit(
        self, circuit: GateReceiver, inputs: Sequence[Any], first: Interpreter | None = None
    ) -> tuple[list[Any], Any]:
        """Apply the gates of the quantum function to a circuit.

        Args:
            circuit: the backend's circuit, which receives the gates.
            inputs: the arguments of the quantum function that are arrays.
            first: the first interpreter of a chain of passes that ends in ``circuit``; None for the
                default passes.

        Returns:
            the leaves (measurement processes, numbers and arrays) and the tree structure of the
            quantum function's result.
        """

    def get_constants(self) -> list[Any]:
        """Return the arrays of the enclosing program that the function closes over."""

    def override_constants(self, constants: Sequence[Any]) -> AbstractContextManager[None]:
        """Replace the arrays of ``get_constants()`` within the ``with`` block."""


@dataclass(frozen=True)
class Circuit:
    """A quantum function, its inputs and its execution settings.

    One object describes one call of a QNode in the traced program. Backends receive a ``Circuit``,
    a PennyLane device and a ``WireMap``. A ``Circuit`` refers to no QNode, device or queue.

    Attributes:
        function: the quantum function, which applies its gates to a backend's circuit.
        inputs: the arguments of the quantum function that are arrays of the program.
        config: the execution settings, from the QNode and the ``qjit`` options.
        plan: the choice of an executor, with the treatment of outcomes and derivatives.
    """

    function: GateFunction
    inputs: Sequence[Any]
    config: CircuitConfig
    plan: ExecutionPlan

    @property
    def where(self) -> str:
        """The QNode and its line, for errors."""
        return self.config.where

    @property
    def shots(self) -> Shots:
        """The shots of the circuit."""
        return self.config.shots

    def name_in_errors(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Give ``run`` the quantum function's name, which JAX's errors then show.

        Sets ``__name__`` and ``__wrapped__`` of ``run``, and returns ``run``.
        """
        return set_function_name(self.config.function, run)

    def trace_rows(self, run_row: Callable[..., tuple[Any, Sequence[Any], Any]]) -> Any:
        """Trace the circuit into the program, with ``jax.vmap`` over broadcast parameters.

        Args:
            run_row: ``(traced_row, row_index, *inputs) -> (results, leaves, tree)``: traces one
                batch row. ``traced_row`` is a ``TracedRow``, with which gates select the row of
                batched parameters, and ``row_index`` is its index, a traced int32. ``results`` is
                None if another backend must run the circuit; ``leaves`` and ``tree``, of the
                quantum function's result, tell which results are measurements.

        Returns:
            the results of ``run_row``; if parameters are broadcast, measurements have a leading
            batch axis, and other leaves have none. None if ``run_row`` returned None as results.
        """
        rows = Rows(self.where)
        are_measured: list[bool] = []
        tree: Any = None

        def run(row: Operand, *inputs: Operand) -> Any:
            """Call ``run_row`` for one batch row; return its results.

            Also stores the result's tree structure (``tree``) and which leaves are measurements
            (``are_measured``). ``row`` is the row's index.
            """
            nonlocal are_measured, tree
            results, leaves, tree = run_row(rows.get_row(row), row, *inputs)
            are_measured = list(map(is_measurement, leaves))
            return results

        # Tracing determines the batch size, which `rows.map_rows` needs.
        closed, shapes = jax.make_jaxpr(self.name_in_errors(run), return_shape=True)(
            Rows.STRUCT, *self.inputs
        )
        if shapes is None:
            return None
        returned = jax.tree.structure(shapes)

        def evaluate_row(row: Operand) -> Any:
            """Evaluate the traced circuit for a row index."""
            leaves = eval_jaxpr(closed.jaxpr, closed.consts, row, *jax.tree.leaves(self.inputs))
            return jax.tree.unflatten(returned, leaves)

        return rows.map_rows(
            evaluate_row,
            lambda all_: drop_duplicate_rows(
                all_, tree, are_measured, is_vector=self.shots.is_vector
            ),
        )
