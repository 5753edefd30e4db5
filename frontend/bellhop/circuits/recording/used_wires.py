"""The wires that a circuit names, found out before it is traced for a device without its own."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.base.known_values import known
from bellhop.circuits.gates.broadcasting import Rows
from bellhop.circuits.gates.control_flow import is_control_flow
from bellhop.circuits.gates.wires import is_dynamic
from bellhop.circuits.measure.process import is_measurement
from bellhop.circuits.recording.allocation import number_needed
from bellhop.circuits.recording.inverted_functions import NestingCircuit, apply_control_flow
from bellhop.control_flow.branches import choose
from bellhop.control_flow.for_loop import repeat
from bellhop.control_flow.steps import Branches
from bellhop.control_flow.while_loop import repeat_while


class UsedWires(NestingCircuit):
    """A circuit that takes note of wires.

    Args:
        where: the QNode, for errors.
        goes_through_loops: whether it takes each iteration of a loop of known length by itself,
            whose number may be a wire.
    """

    def __init__(self, where: str, *, goes_through_loops: bool = False) -> None:
        super().__init__(where, Rows(where).at(None))
        self._goes_through_loops = goes_through_loops
        self._named: list[Any] = []
        self._operations: list[Any] = []

    def of(self, function: Callable[..., Any], inputs: Sequence[Any]) -> "UsedWires":
        """Take note of a quantum function's; return this."""

        def run(*inputs: Any) -> tuple[()]:
            leaves, _ = self.traced(function, *inputs)
            for leaf in leaves:
                # Outcomes are numbers; their wires stand among the operations.
                if is_measurement(leaf) and leaf.mv is None:
                    self._note(leaf.wires)
            return ()

        jax.eval_shape(run, *inputs)
        return self

    def labels(self) -> Sequence[Any]:
        """Return the wires that are named, in PennyLane's order."""
        return qml.wires.Wires.all_wires(list(map(qml.wires.Wires, self._named))).labels

    @property
    def n_allocated(self) -> int:
        """How many wires are allocated beside these."""
        return number_needed(self._operations)

    def apply(self, operations: Sequence[Any]) -> None:
        """Take note of the wires of operations."""
        for op in operations:
            if is_control_flow(op):
                apply_control_flow(self, op)
            else:
                self._operations.append(op)
                self._note(op.wires)

    def _note(self, wires: Sequence[Any]) -> None:
        for wire in wires:
            value = known(wire) if is_dynamic(wire) else None
            if not isinstance(wire, qml.wires.DynamicWire):
                self._named.append(wire if value is None else int(value))

    def mid_measure(self, label: Any, *, reset: bool, postselect: int, site: str) -> Any:
        """Take note of the wire; return an outcome that is as good as another."""
        self.flush_active("measure")
        self._note([label])
        return jnp.zeros((), bool)

    def for_loop(self, n_iterations: Any, body: Callable[..., Any], carried: Any) -> Any:
        """Go through a loop; return the carried values."""
        length = known(jnp.asarray(n_iterations)) if self._goes_through_loops else None
        if length is None:
            return repeat(n_iterations, self._part(body), carried)
        for number in range(int(length)):
            # As arrays, which the body was traced for.
            carried = jax.tree.map(jnp.asarray, body(carried, jnp.asarray(np.int64(number))))
        return carried

    def while_loop(self, condition: Any, body: Callable[..., Any], carried: Any) -> Any:
        """Go through an iteration; return the carried values."""
        return repeat_while(condition, self._part(body), carried)

    def branch(self, branches: Branches) -> Any:
        """Go through all branches; return the result."""
        return choose(branches.changed(self._part))

    def _part(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            with self.queue():
                return function(*args)

        return run
