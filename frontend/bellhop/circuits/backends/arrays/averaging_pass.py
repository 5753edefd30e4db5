"""``AveragingPass``: average a mixed state over mid-circuit outcomes.

A measurement becomes a channel on its wire, and a conditional on outcomes becomes gates that the
measured wires control::

    quantum_operations[RX on 0] x
    m = quantum_outcome_of_wire[0]                    apply([RX(x, 0),
    cond[branches=({ },                        --->          QubitChannel([P0, P1], 0),
                   { quantum_operations[RY on 1] y })] m     ctrl(RY(y, 1), 0)])

Operations are collected until a loop or another conditional begins, so that the simulator fuses
them across measurements.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.base.types import Operand
from bellhop.circuits.backends.arrays.pennylane_operations import make_measurement
from bellhop.circuits.backends.choose.outcome_averages import find_label
from bellhop.circuits.gates.decompositions import Modifiers
from bellhop.circuits.ir.interpreter import Interpreter
from bellhop.control_flow.tagged_values import ValueTag
from bellhop.jaxprs.constant_eval import evaluate_static, find_deciding_inputs


class _AveragedTag(ValueTag):
    """The tag of an averaged outcome, whose value is a placeholder: always False.

    `AveragingPass` tags each outcome, so that it finds the outcomes on which a conditional's index
    depends.
    """


class AveragingPass(Interpreter):
    """Replaces mid-circuit measurements by channels, conditionals on them by gates.

    Args:
        target: the interpreter that gets the operations. ``find_outcome_averages`` must have
            accepted its circuit.
        unrolls: whether to unroll loops of static trip count.
    """

    def __init__(self, target: Interpreter, *, unrolls: bool) -> None:
        self.target = target
        self.where = target.where
        self.precision = target.precision
        self._unrolls = unrolls
        self._collected: list[Any] = []
        # Wire and outcome of each measurement so far.
        self._measured: list[tuple[Any, Any]] = []
        # By label, the channels that reset wires before the next gate on them.  Until then, the
        # wires may control gates.
        self._resets: dict[Any, Any] = {}

    def apply(self, operations: Sequence[Any]) -> None:
        """Collect operations, after the due resets of their wires; `flush` applies them."""
        for op in operations:
            self._reset_wires(op.wires)
            # A traced wire may be any wire of the operation.
            if None in self._resets:
                self._collected.append(self._resets.pop(None))
            self._collected.append(op)

    def _reset_wires(self, wires: Sequence[Any]) -> None:
        """Collect the due resets of wires; all due resets if one of the wires is traced."""
        labels = set(map(find_label, wires)) if self._resets else set()
        due = set(self._resets) if None in labels else labels & self._resets.keys()
        self._collected += [self._resets.pop(label) for label in list(self._resets) if label in due]

    def flush(self) -> None:
        """Apply the collected operations and all due resets to the target."""
        collected = [*self._collected, *self._resets.values()]
        self._collected, self._resets = [], {}
        if collected:
            self.target.apply(collected)

    def mid_measure(
        self, label: Any, *, reset: bool, postselect: int, site: str, is_joint: bool = False
    ) -> Any:
        """Collect the channel of a measurement; return a tagged False for its outcome.

        A reset is not collected yet, but before the next operation on the wire or at `flush`: until
        then, the wire can control the gates of conditionals.

        Args:
            label: the wire label, or a tracer.
            reset: whether the wire is set to zero afterwards.
            postselect: not used; circuits with postselection are not averaged.
            site: the user's ``file:line``.
            is_joint: not used.
        """
        del postselect, is_joint
        self.apply([self._make_measurement(label, site, reset=False)])
        if reset:
            self._resets[find_label(label)] = self._make_measurement(label, site, reset=True)
        outcome = _AveragedTag().tag(jnp.asarray(False))
        self._measured.append((label, outcome))
        return outcome

    def _make_measurement(self, wire: Any, site: str, *, reset: bool) -> Any:
        measurement = make_measurement(wire, reset=reset)
        self.record_site(measurement, site)
        return measurement

    def branch(self, branches: Any) -> Any:
        """Add a conditional; if outcomes decide, as gates that the measured wires control.

        Then the gates of the chosen branch are collected for each combination of the deciding
        outcomes, controlled by their wires, and the result is an empty tuple. Any other conditional
        is added to the target after a `flush`, and its branches end with all operations applied.

        Args:
            branches: the traced index of the branch to run, and the branches as functions.
        """
        used = find_deciding_inputs(branches.index, [outcome for _, outcome in self._measured])
        if not used:
            self.flush()
            return self.target.branch(branches.map_functions(self._add_flush))
        wires, outcomes = zip(*(self._measured[number] for number in used), strict=True)
        combinations = list(itertools.product((0, 1), repeat=len(used)))
        indices = evaluate_static(branches.index, outcomes, combinations)
        assert indices is not None
        for bits, index in zip(combinations, indices, strict=True):
            gates = self._collect_branch(branches.functions[int(index)])
            self._reset_wires([wire for op in gates for wire in op.wires])
            controls = Modifiers(adjoint=False, controls=list(zip(wires, bits, strict=True)))
            for op in gates:
                self._collected.append(controls.apply(op))
                self.record_site(self._collected[-1], self.find_site(op))
        return ()

    def _collect_branch(self, branch: Callable[[], Any]) -> list[Any]:
        """Run a branch that has no results; return its gates, which are not collected."""
        outer = self._collected, self._resets
        self._collected, self._resets = [], {}
        results = branch()
        assert not jax.tree.leaves(results)
        gates = self._collected
        self._collected, self._resets = outer
        return gates

    def _add_flush(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that runs a loop's body or a branch, and ends with a `flush`."""

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
        """Unroll a for loop, or add a loop whose iterations apply all their operations.

        The arguments and the result are as in the target's ``for_loop``. Only a loop with a static
        trip count is unrolled, if the pass unrolls loops; its index is then a NumPy integer.
        """
        if self._unrolls and isinstance(n_iterations, int):
            for number in range(n_iterations):
                carried = body(carried, np.asarray(number))
            return carried
        self.flush()
        return self.target.for_loop(n_iterations, self._add_flush(body), carried, is_nest=is_nest)

    def while_loop(
        self, condition: Callable[..., Any], body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Add a while loop whose iterations end with all operations applied."""
        self.flush()
        return self.target.while_loop(condition, self._add_flush(body), carried)

    def record_site(self, operation: Any, site: str) -> None:
        """Record the user's ``file:line`` that created an operation."""
        self.target.record_site(operation, site)

    def find_site(self, operation: Any) -> str:
        """Return the user's ``file:line`` that created an operation, or ``""`` if unknown."""
        return self.target.find_site(operation)
