"""The circuit that turns a quantum function into a tape template, for a Python device."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml

from bellhop.base.types import Wire
from bellhop.circuits.backends.tapes.template import (
    BranchChoice,
    Step,
    TemplatePart,
    replace_dynamic_wires,
)
from bellhop.circuits.gates.decompositions import get_pennylane_decomposition
from bellhop.circuits.gates.operator_data import select_row
from bellhop.circuits.gates.tape_control_flow import ControlFlow
from bellhop.circuits.ir.broadcasting import TracedRow
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.circuits.passes.backend_circuit import BackendCircuit
from bellhop.circuits.passes.tape_circuit import TapeCircuit
from bellhop.control_flow.trace_body import trace_branches
from bellhop.errors import CompileError
from bellhop.tracing.current_circuit import Branches


class TemplateCircuit(TapeCircuit):
    """The circuit that collects a tape template for a device that Python executes.

    It collects operations with placeholders for traced values (the steps of a `Template`), and the
    traced values that will fill them. Loops with a static trip count are unrolled. A conditional is
    one step with the operations of all its branches. Mid-circuit measurements are PennyLane
    operations.

    Args:
        where: the QNode's name and line, which begin error messages.
        rows: the batch row whose gate parameters are used, by a traced index (broadcasting).
        device_wires: the wire labels of the device; None for a device without wires.

    Attributes:
        operands: the traced values that fill the template, by the operand's index.
    """

    def __init__(self, where: str, rows: TracedRow, device_wires: Any = None) -> None:
        super().__init__(where, rows, functools.partial(_unsupported_error, where), device_wires)
        self.operands: dict[int, Any] = {}
        self._n_operands = 0

    def apply(self, operations: Sequence[Any]) -> None:
        """Append operations to the template; run the control flow among them."""
        for op in operations:
            with self.error_location(op):
                self._apply(op)

    def _apply(self, op: qml.operation.Operator) -> None:
        """Append one operation to the template.

        An operation is decomposed if PennyLane cannot bind new values to all of its parameters or
        cannot differentiate it. For a `ControlFlow` operation, which is a loop or conditional in a
        decomposition, the operations in it are appended.
        """
        if ControlFlow.is_instance(op):
            self.apply_control_flow(op)
        elif (_has_inner_parameters(op) or _has_traced_product(op)) and op.has_decomposition:
            # PennyLane cannot bind new parameters inside such operations, and it does not
            # differentiate inverse or controlled products.
            self.apply(get_pennylane_decomposition(op) or ())
        else:
            self.steps.append(self._make_part(select_row(op, self.rows)))

    def make_measurement_part(self, process: Any) -> TemplatePart:
        """Convert a final measurement process to a part of the template."""
        with self.error_location(process):
            return self._make_part(process)

    def _make_part(self, op_or_process: Any) -> TemplatePart:
        """Convert an operation or measurement process to a part of the template.

        Its traced values and traced wires are added to `operands`.

        Raises:
            CompileError: for a traced value that cannot be an operand.
        """
        if isinstance(op_or_process, qml.ops.MidMeasure) and any(
            map(is_dynamic, op_or_process.wires)
        ):
            raise CompileError(
                f"{self.where}: a mid-circuit measurement is on a traced wire, which is not "
                "supported on devices that run in Python. Make the wire static, by "
                "qjit(static_argnums=...), or use lightning.qubit."
            )
        op_or_process = replace_dynamic_wires(op_or_process, self._add_wire_operand)
        self._check_static(
            op_or_process if getattr(op_or_process, "obs", None) is None else op_or_process.obs
        )
        return TemplatePart.from_object(op_or_process, self._add_operand)

    def _add_wire_operand(self, wire: Wire) -> int:
        """Add the qubit index of a traced wire as an operand; return the operand's index.

        Raises:
            CompileError: if the device has no wires, or wires that are not 0, 1, ... in order, or
                the wire is not an integer.
        """
        if not self.labels():
            raise CompileError(
                f"{self.where}: a wire is traced, and the device was made without wires. Pass the "
                "number of wires: qml.device(..., wires=n)."
            )
        return self._add_operand(self.wires.get_dynamic_qubit(wire))

    def _check_static(self, operator: Any) -> None:
        """Raise an error if an operation has traced values that a tape cannot take.

        Args:
            operator: an operation, or the observable of a measurement process.

        Raises:
            CompileError: for a traced hyperparameter, or a mid-circuit outcome as a parameter.
        """
        if any(map(is_dynamic, _list_inner_values(operator))):
            raise CompileError(
                f"{self.where}: a hyperparameter of {_get_name(operator)} is traced, which is not "
                "supported on devices that run in Python. Make the hyperparameter static: "
                "qjit(static_argnums=...); or write gates instead."
            )
        if any(
            isinstance(value, qml.ops.MeasurementValue) for value in getattr(operator, "data", ())
        ):
            raise CompileError(
                f"{self.where}: a parameter of {_get_name(operator)} is the outcome of a "
                "mid-circuit measurement, which is not supported on devices that run in Python. "
                "Use bellhop.cond with the outcome."
            )

    def _add_operand(self, value: Any) -> int:
        """Add a traced value as an operand; return the operand's index."""
        self.operands[self._n_operands] = value
        self._n_operands += 1
        return self._n_operands - 1

    def branch(self, branches: Branches) -> Any:
        """Append a conditional with the operations of all branches to the template.

        When the program runs, it computes the operands of the chosen branch, such as angles; the
        operands of all other branches are zeros. The device gets the operations of the chosen
        branch only.

        Args:
            branches: the traced index of the branch to run, and the branches as functions.

        Returns:
            the result of the branch that runs.
        """
        steps: list[tuple[Step, ...]] = []

        def record_branch(branch: Callable[[], Any]) -> Callable[[], tuple[Any, Any]]:
            """Return a function that runs a branch and collects its operations separately."""

            def run() -> tuple[Any, Any]:
                """Run the branch on new lists of steps and operands; then restore the circuit's.

                The branch's steps are appended as a tuple to ``steps``.

                Returns:
                    the branch's result, and a dictionary of the operands that its steps use, by
                    their index.
                """
                outer = self.steps, self.operands
                self.steps, self.operands = [], {}
                try:
                    result = branch()
                    steps.append(tuple(self.steps))
                    return result, self.operands
                finally:
                    self.steps, self.operands = outer

            return run

        runners, structs = trace_branches(branches.map_functions(record_branch))
        every = {number: struct for each in structs for number, struct in each.items()}

        def fill_operands(runner: Callable[[], tuple[Any, Any]]) -> Callable[[], tuple[Any, Any]]:
            """Wrap a traced branch, so that it returns the operands of all branches.

            The operands of the other branches are zeros. So all branches return the same types, as
            ``jax.lax.switch`` requires.

            Args:
                runner: runs the branch; returns its result and its own operands by index.
            """

            def run() -> tuple[Any, Any]:
                """Run the branch; return its result, and the operands of all branches.

                The operands of other branches are zeros.
                """
                result, mine = runner()
                zeros = {n: jnp.zeros(struct.shape, struct.dtype) for n, struct in every.items()}
                return result, zeros | mine

            return run

        result, operands = jax.lax.switch(branches.index, list(map(fill_operands, runners)))
        self.operands |= operands
        self.steps.append(
            BranchChoice(self._add_operand(jnp.asarray(branches.index)), tuple(steps))
        )
        return result

    def get_control_flow_target(self) -> Any:
        """Return an object that appends control flow to PennyLane's active queue."""
        return BackendCircuit.get_control_flow_target(self)


def _unsupported_error(where: str, construct: str) -> CompileError:
    """Return the error for a construct that tapes do not support.

    Args:
        where: the QNode's name and line.
        construct: describes it, such as "a while_loop"; its trip count is dynamic.
    """
    return CompileError(
        f"{where}: the circuit has {construct}, expected a static trip count, as tapes for devices "
        "that run in Python have a fixed length. Use a for_loop with Python integers as bounds, or "
        "qml.device('lightning.qubit', wires=...)."
    )


def _list_inner_values(op: qml.operation.Operator) -> list[Any]:
    """List the hyperparameters of an operation and, recursively, of operators in them.

    The result has their leaves, without the operators themselves.
    """
    hyperparameters = getattr(op, "hyperparameters", {})
    parts = [part for part in hyperparameters.values() if isinstance(part, qml.operation.Operator)]
    values = [
        value
        for value in jax.tree.leaves(
            list(hyperparameters.values()),
            is_leaf=lambda value: isinstance(value, qml.operation.Operator),
        )
        if not isinstance(value, qml.operation.Operator)
    ]
    return values + [value for part in parts for value in _list_inner_values(part)]


def _get_name(operator: Any) -> str:
    return getattr(operator, "name", None) or type(operator).__name__


def _has_traced_product(op: qml.operation.Operator) -> bool:
    """Return whether an operation is an adjoint or controlled ``Prod`` with tracers.

    PennyLane does not differentiate such operations, so they are decomposed.
    """
    if not isinstance(op, qml.ops.op_math.SymbolicOp):
        return False
    return any(map(_is_tracer, op.data)) and (
        isinstance(op.base, qml.ops.Prod) or _has_traced_product(op.base)
    )


def _has_inner_parameters(op: qml.operation.Operator) -> bool:
    """Return whether PennyLane cannot bind new values to all traced parameters.

    ``bind_new_parameters`` does not support operations inside a PennyLane template, the generator
    of an evolution, and a ``ChangeOpBasis``, whose factors it binds in the wrong order.
    """
    if isinstance(op, qml.ops.ChangeOpBasis):
        return True
    leaves, data = (list(filter(_is_tracer, each)) for each in (jax.tree.leaves(op), op.data))
    if len(leaves) > len(data):
        return True
    if isinstance(op, qml.ops.op_math.SymbolicOp):
        return _has_inner_parameters(op.base)
    if isinstance(op, qml.ops.op_math.CompositeOp):
        return any(map(_has_inner_parameters, op.operands))
    held = jax.tree.leaves(
        list(op.hyperparameters.values()), is_leaf=lambda x: isinstance(x, qml.operation.Operator)
    )
    operators = [each for each in held if isinstance(each, qml.operation.Operator)]
    return any(_is_tracer(value) for each in operators for value in each.data)


def _is_tracer(value: object) -> bool:
    return isinstance(value, jax.core.Tracer)
