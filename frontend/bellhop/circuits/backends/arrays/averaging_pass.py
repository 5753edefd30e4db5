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
    """Tag of the constant False that replaces a mid-circuit outcome.

    A channel replaces the measurement, so the outcome has no value. With a tag, the constant of
    each outcome is a separate traced value, so `AveragingPass` can find the outcomes on which the
    index of a conditional depends.
    """


class AveragingPass(Interpreter):
    """Replaces mid-circuit measurements by channels, conditionals on them by gates.

    Its methods are called for the constructs of a circuit in order. ``m = measure(0)`` becomes a
    channel on wire 0, and ``cond(m, RY)(y, 1)`` becomes ``ctrl(RY(y, 1), 0)``. So `target`, which
    simulates a density matrix, is executed once, and not for each combination of outcomes.

    Args:
        target: the circuit to which the resulting operations, loops and conditionals are added.
            ``find_outcome_averages`` must have accepted it.
        unrolls: whether to unroll loops with a static trip count.
    """

    def __init__(self, target: Interpreter, *, unrolls: bool) -> None:
        self.target = target
        self.where = target.where
        self.precision = target.precision
        self._unrolls = unrolls
        self._queued: list[Any] = []
        # Wire and outcome of each measurement so far.
        self._measured: list[tuple[Any, Any]] = []
        # By label, the channels that reset wires before the next gate on them.  Until then, the
        # wires may control gates.
        self._postponed_resets: dict[Any, Any] = {}

    def apply(self, operations: Sequence[Any]) -> None:
        """Queue operations, which `flush` applies to the target.

        If `mid_measure` postponed the reset of an operation's wire, the reset is queued first.
        """
        for op in operations:
            self._reset_wires(op.wires)
            # A traced wire may be any wire of the operation.
            if None in self._postponed_resets:
                self._queued.append(self._postponed_resets.pop(None))
            self._queued.append(op)

    def _reset_wires(self, wires: Sequence[Any]) -> None:
        """Queue the postponed resets of some wires.

        `mid_measure` postpones the reset of a measured wire.

        Args:
            wires: wire labels or tracers. With a tracer, which may be any wire, all postponed
                resets are queued.
        """
        labels = set(map(find_label, wires)) if self._postponed_resets else set()
        due = (
            set(self._postponed_resets)
            if None in labels
            else labels & self._postponed_resets.keys()
        )
        self._queued += [
            self._postponed_resets.pop(label)
            for label in list(self._postponed_resets)
            if label in due
        ]

    def flush(self) -> None:
        """Apply the queued operations, then all postponed resets, to the target."""
        queued = [*self._queued, *self._postponed_resets.values()]
        self._queued, self._postponed_resets = [], {}
        if queued:
            self.target.apply(queued)

    def mid_measure(
        self, label: Any, *, reset: bool, postselect: int, site: str, is_joint: bool = False
    ) -> Any:
        """Queue a measurement as a channel; return False, tagged, instead of its outcome.

        A reset of the wire is postponed until the next operation on the wire, or until `flush`, so
        that the wire can control the gates of conditionals before.

        Args:
            label: the wire label, or a tracer.
            reset: whether the wire is set to zero afterwards.
            postselect: not used; circuits with postselection are not averaged.
            site: the user's ``file:line``.
            is_joint: not used.

        Returns:
            a traced False in place of the outcome, which has no meaning as a value. `branch` finds
            the conditionals whose index is computed from it, and replaces them.
        """
        del postselect, is_joint
        self.apply([self._make_measurement(label, site, reset=False)])
        if reset:
            self._postponed_resets[find_label(label)] = self._make_measurement(
                label, site, reset=True
            )
        outcome = _AveragedTag().tag(jnp.asarray(False))
        self._measured.append((label, outcome))
        return outcome

    def _make_measurement(self, wire: Any, site: str, *, reset: bool) -> Any:
        """Make the channel of a measurement, and record the user's line for errors."""
        measurement = make_measurement(wire, reset=reset)
        self.record_site(measurement, site)
        return measurement

    def branch(self, branches: Any) -> Any:
        """Replace a conditional on mid-circuit outcomes by controlled gates.

        The gates of the branch that each combination of outcomes chooses are queued, with the
        measured wires as controls. Any other conditional is added to the target, after a
        `flush`; each of its branches ends with a `flush`.

        Args:
            branches: the traced index of the branch to run, and the branches as functions.

        Returns:
            an empty tuple for a conditional on outcomes, else the result of the chosen branch.
        """
        used = find_deciding_inputs(branches.index, [outcome for _, outcome in self._measured])
        if not used:
            self.flush()
            return self.target.branch(branches.map_functions(self._append_flush))
        wires, outcomes = zip(*(self._measured[number] for number in used), strict=True)
        combinations = list(itertools.product((0, 1), repeat=len(used)))
        indices = evaluate_static(branches.index, outcomes, combinations)
        assert indices is not None
        for bits, index in zip(combinations, indices, strict=True):
            gates = self._collect_branch(branches.functions[int(index)])
            self._reset_wires([wire for op in gates for wire in op.wires])
            controls = Modifiers(adjoint=False, controls=list(zip(wires, bits, strict=True)))
            for op in gates:
                self._queued.append(controls.apply(op))
                self.record_site(self._queued[-1], self.find_site(op))
        return ()

    def _collect_branch(self, branch: Callable[[], Any]) -> list[Any]:
        """Call a branch, which has no results; return its gates instead of queuing them."""
        outer = self._queued, self._postponed_resets
        self._queued, self._postponed_resets = [], {}
        results = branch()
        assert not jax.tree.leaves(results)
        gates = self._queued
        self._queued, self._postponed_resets = outer
        return gates

    def _append_flush(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the body of a loop, or a branch, so that it ends with a `flush`."""

        def run(*args: Any) -> Any:
            """Call `function`, then `flush`; return the results of `function`."""
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
        can_unroll: bool = False,
    ) -> tuple[Any, ...]:
        """Unroll a for loop, or add it to the target with a `flush` after each iteration.

        A loop is unrolled if its trip count is static and the pass was made with ``unrolls``.

        Args:
            n_iterations: the trip count: an ``int``, or a tracer if it is dynamic.
            body: ``body(carried, index)`` applies gates to this pass, and returns the next carried
                values. In an unrolled loop, ``index`` is a NumPy integer.
            carried: the initial carried values.
            can_unroll: passed to the target's ``for_loop``.

        Returns:
            the carried values after the loop.
        """
        if self._unrolls and isinstance(n_iterations, int):
            for number in range(n_iterations):
                carried = body(carried, np.asarray(number))
            return carried
        self.flush()
        return self.target.for_loop(
            n_iterations, self._append_flush(body), carried, can_unroll=can_unroll
        )

    def while_loop(
        self, condition: Callable[..., Any], body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Add a while loop to the target, with a `flush` after each iteration.

        Args:
            condition: maps the carried values to whether another iteration runs.
            body: applies the gates of one iteration; maps the carried values to the next ones.
            carried: the initial carried values.

        Returns:
            the carried values after the loop.
        """
        self.flush()
        return self.target.while_loop(condition, self._append_flush(body), carried)

    def record_site(self, operation: Any, site: str) -> None:
        """Record the user's ``file:line`` that created an operation."""
        self.target.record_site(operation, site)

    def find_site(self, operation: Any) -> str:
        """Return the user's ``file:line`` that created an operation, or ``""`` if unknown."""
        return self.target.find_site(operation)
