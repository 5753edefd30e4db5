"""``AveragingPass``: average a mixed state over mid-circuit outcomes.

A measurement becomes a channel on its wire, and a conditional on outcomes becomes gates that the
measured wires control::

    quantum_operations[RX on 0] x
    m = quantum_outcome_of_wire[0]                    apply([RX(x, 0),
    cond[branches=({ },                        --->          QubitChannel([P0, P1], 0),
                   { quantum_operations[RY on 1] y })] m     ctrl(RY(y, 1), 0)])

Operations are collected until a loop or another conditional begins, so that the simulator fuses them
across measurements.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop.base.types import Operand, Wire
from bellhop.circuits.backends.choose.outcome_averages import find_label
from bellhop.circuits.ir.interpreter import Interpreter
from bellhop.circuits.passes.circuit_pass import CircuitPass
from bellhop.circuits.passes.regions.control import ControlPass
from bellhop.control_flow.tagged_values import ValueTag, tag_value
from bellhop.jaxprs.constant_eval import evaluate_static, find_deciding_inputs
from bellhop.tracing.current_circuit import Branches

_MEASURE = [np.diag([1.0, 0.0]), np.diag([0.0, 1.0])]
_RESET = [np.diag([1.0, 0.0]), np.array([[0.0, 1.0], [0.0, 0.0]])]


class _AveragedTag(ValueTag):
    """The tag of an averaged outcome, whose value is a placeholder."""


class AveragingPass(CircuitPass):
    """Replaces mid-circuit measurements and conditionals on outcomes by channels and gates.

    Args:
        target: the interpreter that gets the operations.  ``find_outcome_averages`` has accepted
            its circuit.
    """

    def __init__(self, target: Interpreter) -> None:
        super().__init__(target)
        self._collected: list[Any] = []
        # Wire and outcome of each measurement so far.
        self._measured: list[tuple[Wire, Any]] = []
        # By label, the channels that reset wires before the next gate on them.  Until then, the
        # wires may control gates.
        self._resets: dict[Any, Any] = {}

    def apply(self, operations: Sequence[Any]) -> None:
        """Collect operations, after the resets of their wires."""
        for op in operations:
            self._reset_wires(op.wires)
            self._collected.append(op)

    def _reset_wires(self, wires: Sequence[Any]) -> None:
        """Collect the due resets of wires; a wire that the program computes may be any wire."""
        labels = set(map(find_label, wires)) if self._resets else set()
        due = set(self._resets) if None in labels else labels & self._resets.keys()
        self._collected += [self._resets.pop(label) for label in list(self._resets) if label in due]

    def flush(self) -> None:
        """Hand the collected operations and all resets to the target."""
        collected = [*self._collected, *self._resets.values()]
        self._collected, self._resets = [], {}
        if collected:
            self.target.apply(collected)

    def mid_measure(
        self, label: Wire, *, reset: bool, postselect: int, site: str, is_joint: bool = False
    ) -> Any:
        """Apply the channel of a measurement; return a placeholder for its outcome.

        Args:
            label: the wire label, or a tracer.
            reset: whether the wire is brought to zero afterwards.
            postselect: not used; circuits with postselection are not averaged.
            site: the user's ``file:line``.
            is_joint: not used.
        """
        del postselect, is_joint
        is_held = find_label(label) is not None
        self.apply([self._make_channel(_RESET if reset and not is_held else _MEASURE, label, site)])
        if reset and is_held:
            self._resets[find_label(label)] = self._make_channel(_RESET, label, site)
        outcome = tag_value(jnp.asarray(False), mark=_AveragedTag())
        self._measured.append((label, outcome))
        return outcome

    def _make_channel(self, kraus: Sequence[Any], wire: Wire, site: str) -> Any:
        """Return a channel that errors call a measurement."""
        with qml.QueuingManager.stop_recording():
            channel = qml.QubitChannel(kraus, wires=wire)
        channel.name = "measure"
        self.record_site(channel, site)
        return channel

    def branch(self, branches: Branches) -> Any:
        """Run a conditional; control the gates of each branch if outcomes decide."""
        used = find_deciding_inputs(branches.index, [outcome for _, outcome in self._measured])
        if not used:
            self.flush()
            return self.target.branch(branches.map_functions(self._flush_after))
        wires, outcomes = zip(*(self._measured[number] for number in used), strict=True)
        combinations = list(itertools.product((0, 1), repeat=len(used)))
        indices = evaluate_static(branches.index, outcomes, combinations)
        assert indices is not None
        for bits, index in zip(combinations, indices, strict=True):
            gates = self._collect_branch(branches.functions[int(index)])
            self._reset_wires([wire for op in gates for wire in op.wires])
            controlled = _Collector(self.target)
            ControlPass(controlled, wires, list(map(bool, bits))).apply(gates)
            self._collected += controlled.operations
        return ()

    def _collect_branch(self, branch: Callable[[], Any]) -> list[Any]:
        """Return the gates of a branch that has no results."""
        outer = self._collected, self._resets
        self._collected, self._resets = [], {}
        results = branch()
        assert not jax.tree.leaves(results)
        gates = self._collected
        self._collected, self._resets = outer
        return gates

    def _flush_after(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a loop's body or a branch that ends with all operations applied."""

        def run(*args: Any) -> Any:
            results = function(*args)
            self.flush()
            return results

        return run

    def for_loop(
        self,
        n_iterations: int | Operand,
        body: Callable[..., Any],
        carried: tuple[Any, ...],
        *,
        is_nest: bool = False,
    ) -> tuple[Any, ...]:
        """Add a for loop whose iterations end with all operations applied."""
        self.flush()
        return self.target.for_loop(n_iterations, self._flush_after(body), carried, is_nest=is_nest)

    def while_loop(
        self, condition: Callable[..., Any], body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Add a while loop whose iterations end with all operations applied."""
        self.flush()
        return self.target.while_loop(condition, self._flush_after(body), carried)


class _Collector(CircuitPass):
    """Collects operations, and knows the sites of its target.

    Attributes:
        operations: the operations so far.
    """

    def __init__(self, target: Interpreter) -> None:
        super().__init__(target)
        self.operations: list[Any] = []

    def apply(self, operations: Sequence[Any]) -> None:
        """Collect operations."""
        self.operations += operations
