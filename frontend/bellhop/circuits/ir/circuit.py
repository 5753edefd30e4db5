"""A circuit as a value: a quantum function with its inputs, and how it is to be run."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import jax
from jax.core import eval_jaxpr

from bellhop.base.source import set_function_name
from bellhop.base.types import Operand
from bellhop.circuits.ir.answers import MeasurementSite
from bellhop.circuits.ir.broadcasting import ROW_STRUCT, Rows
from bellhop.circuits.ir.circuit_config import CircuitConfig, Shots
from bellhop.circuits.ir.measurement_types import is_measurement
from bellhop.circuits.ir.precision import Precision
from bellhop.circuits.ir.results import drop_duplicate_rows
from bellhop.errors import CompileError
from bellhop.tracing.current_circuit import CurrentCircuit

ONE_SHOT, TREE, SINGLE_BRANCH = "one-shot", "tree-traversal", "single-branch-statistics"
# As one-shot, where shots with the same outcomes share a run.
SHARED = "shared runs"


class GateReceiver(MeasurementSite, CurrentCircuit, Protocol):
    """A circuit of a backend, to which the gates of a quantum function are applied."""

    @property
    def where(self) -> str:
        """The QNode and its line, for errors."""

    @property
    def precision(self) -> Precision:
        """Finds the precision of the results, by the numbers in the circuit."""

    def record_site(self, operation: Any, site: str, /) -> None:
        """Note where the user made an operation or measurement.

        Args:
            operation: PennyLane's object.
            site: ``file:line``; empty if that is not known.
        """


class GateFunction(Protocol):
    """A quantum function that has been traced to a jaxpr with gates, or is traced when needed."""

    def get_traced(
        self, where: str, inputs: Sequence[Any], circuit: CurrentCircuit | None = None
    ) -> Any:
        """Return the jaxpr with gates, and the measurements in it."""

    def apply_to_circuit(
        self, circuit: GateReceiver, inputs: Sequence[Any], player: Any = None
    ) -> tuple[list[Any], Any]:
        """Apply the gates to a circuit; return the leaves and the structure of the result."""

    def get_constants(self) -> list[Any]:
        """Return the arrays of the surrounding program that the function uses."""

    def override_constants(self, constants: Sequence[Any]) -> AbstractContextManager[None]:
        """Replace these arrays inside of the ``with`` block."""


@dataclass(frozen=True)
class Circuit:
    """A quantum function with its inputs, and how it is to be run.

    A backend takes it, the device and the wires. Nothing in it is a QNode, a device or a queue.

    Attributes:
        function: the quantum function, which is played on circuits.
        inputs: the arguments that are arrays of the program.
        config: how the circuit is to be run.
        obstacle: why the engine does not run the circuit, where the program simulates it; empty
            otherwise.
    """

    function: GateFunction
    inputs: Sequence[Any]
    config: CircuitConfig
    obstacle: str = ""

    @property
    def where(self) -> str:
        """The QNode and its line, for errors."""
        return self.config.where

    @property
    def shots(self) -> Shots:
        """The numbers of shots."""
        return self.config.shots

    def choose_mcm_method(self, circuit: MeasurementSite, leaves: Sequence[Any]) -> str | None:
        """Return how a circuit with mid-circuit measurements is run; None for one without.

        Whatever it is called, with shots each of them is a run whose outcomes are drawn.

        Args:
            circuit: the end of the circuit.
            leaves: what the quantum function returned.
        """
        if not circuit.has_mid_circuit:
            return None
        is_classical = not all(map(is_measurement, leaves))
        method = self.config.mcm_method
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

    def name_in_errors(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Let JAX's errors name the quantum function where they would name ``run``."""
        return set_function_name(self.config.function, run)

    def trace_rows(self, run_row: Callable[..., tuple[Any, Sequence[Any], Any]]) -> Any:
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
            results, leaves, tree = run_row(rows.get_row(row), row, *inputs)
            are_measured = list(map(is_measurement, leaves))
            return results

        # The trace finds out how many rows there are.
        closed, shapes = jax.make_jaxpr(self.name_in_errors(run), return_shape=True)(
            ROW_STRUCT, *self.inputs
        )
        if shapes is None:
            return None
        returned = jax.tree.structure(shapes)

        def evaluate_row(row: Operand) -> Any:
            leaves = eval_jaxpr(closed.jaxpr, closed.consts, row, *jax.tree.leaves(self.inputs))
            return jax.tree.unflatten(returned, leaves)

        return rows.map_rows(
            evaluate_row,
            lambda all_: drop_duplicate_rows(
                all_, tree, are_measured, is_vector=self.shots.is_vector
            ),
        )
