"""Add the noise of a PennyLane noise model while a gate jaxpr is interpreted.

Noise is inserted after each operation where it is applied, so loops and conditionals remain.  The
noise model sees a gate in a branch on a mid-circuit outcome as a ``qml.ops.Conditional``.  As in
PennyLane, the noise after such a gate does not depend on the outcome.  If ``model`` adds ``noise``
on wire 0::

    m = quantum_outcome_of_wire[0]                         m = mid_measure(0); apply([noise])
    cond[branches=({ quantum_operations[X] },      --->    branch(n, [apply([X(0), noise, noise]),
                   { quantum_operations[Y] })] n                      apply([noise, Y(0), noise])])
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
from jax.core import Tracer
from jax.extend.core.primitives import cond_p, scan_p, while_p

from bellhop._jax.jaxprs import find_equation, unwrap_tracer
from bellhop.base.types import Operand, Wire
from bellhop.circuits.gates.tape_control_flow import ControlFlow
from bellhop.circuits.ir.circuit_config import CircuitConfig
from bellhop.circuits.ir.interpreter import Interpreter
from bellhop.circuits.ir.measurement_types import is_measurement
from bellhop.circuits.passes.circuit_pass import CircuitPass
from bellhop.circuits.passes.noise.noise_models import NoiseInserter
from bellhop.circuits.passes.operation_transforms import make_rewrite, make_rewrite_before_noise
from bellhop.circuits.passes.program_circuit import ProgramCircuit
from bellhop.circuits.passes.regions.region_pass import apply_control_flow
from bellhop.circuits.passes.rewrite import add_rewrite
from bellhop.errors import CompileError
from bellhop.tracing.current_circuit import Branches

if TYPE_CHECKING:
    import pennylane as qml


@dataclass
class _NoiseState:
    """Progress of a `NoisePass` through one circuit.

    Attributes:
        is_first: whether no operation was applied yet.
        is_branch_taken: None outside of branches on a mid-circuit outcome. In such a branch: True
            while gates are applied with their noise, False while the noise is applied without the
            gates, since another branch is taken.
        has_branch_noise: whether a gate in such a branch had noise.
        outcomes: the outcomes of mid-circuit measurements so far, tracers.
        carried: tracers of the values that loops carry. While a loop's body is traced, it is
            unknown whether they depend on outcomes.
        deferred_error: the error to raise at the next mid-circuit measurement, or None. It is set
            by a conditional whose index may depend on an outcome through a loop or another
            conditional, while the circuit has not measured yet.
    """

    is_first: bool = True
    is_branch_taken: bool | None = None
    has_branch_noise: bool = False
    outcomes: list[Any] = field(default_factory=list)
    carried: list[Any] = field(default_factory=list)
    deferred_error: CompileError | None = None


class NoisePass(CircuitPass):
    """Pass that inserts the noise of ``qml.add_noise`` around each operation.

    Unlike PennyLane's transform, the pass needs no tape: the circuit may have loops, conditionals
    and mid-circuit measurements. An instance serves one trace of one circuit on ``default.mixed``.

    Args:
        circuit: the backend's circuit, at the end of the chain of passes.
        config: the QNode's settings. Its later transforms are applied to operations and noise.
        noise: finds the noise of an operation or measurement.
        outcomes: the traced array from which the circuit reads its mid-circuit outcomes.

    Attributes:
        first: the first interpreter of the chain: this pass, or Pauli twirling before it.
    """

    def __init__(
        self, circuit: ProgramCircuit, config: CircuitConfig, noise: NoiseInserter, outcomes: Any
    ) -> None:
        super().__init__(add_rewrite(circuit, make_rewrite(config)))
        self.first: Interpreter = add_rewrite(self, make_rewrite_before_noise(config))
        self._circuit = circuit
        self._noise = noise
        self._outcomes = outcomes
        self._state = _NoiseState()

    @classmethod
    def from_config(
        cls, circuit: ProgramCircuit, config: CircuitConfig, outcomes: Any
    ) -> NoisePass | None:
        """Return the pass for a circuit; None without noise.

        A QNode has noise here if its first transform is ``qml.add_noise``.

        Args:
            circuit: the backend's circuit.
            config: the QNode's settings, with its transforms.
            outcomes: the traced array from which the circuit reads its mid-circuit outcomes.
        """
        noise = NoiseInserter.from_config(config)
        return None if noise is None else cls(circuit, config, noise, outcomes)

    @staticmethod
    def can_be_used(config: CircuitConfig, device: qml.devices.Device) -> bool:
        """Return whether this pass can add a QNode's noise, instead of PennyLane.

        See `NoiseInserter.can_add_piecewise` for the conditions.
        """
        return NoiseInserter.can_add_piecewise(config, device)

    def apply(self, operations: Sequence[Any]) -> None:
        """Forward operations in order to the next interpreter, each with its noise around it.

        In a branch that is not taken, only the noise is forwarded. A `ControlFlow` operation, which
        is a loop or conditional, is applied by this pass, so that the gates in it get noise.
        """
        noisy = [each for op in operations for each in self._add_noise(op)]
        for is_control, group in itertools.groupby(noisy, ControlFlow.is_instance):
            if is_control:
                for op in group:
                    apply_control_flow(self, op)
            else:
                self.apply_noise(list(group))

    def mid_measure(
        self, label: Wire, *, reset: bool, postselect: int, site: str, is_joint: bool = False
    ) -> Any:
        """Measure a wire mid-circuit with noise before and after the measurement.

        The arguments and the result are as in `Interpreter.mid_measure`.

        Raises:
            CompileError: for a ``pauli_measure``; for a measurement in a conditional on an outcome;
                and after a conditional for which it is unknown whether an outcome decides it.
        """
        if is_joint:
            raise CompileError(
                f"{self.where}: a pauli_measure ({site}) is not supported with qml.add_noise, "
                "since PennyLane does not define its noise. Write channels after the gates instead "
                "of qml.add_noise."
            )
        if self._state.is_branch_taken is not None:
            raise CompileError(
                f"{self.where}: a measure ({site}) in a conditional on a mid-circuit "
                "outcome is not supported with qml.add_noise. Measure outside of the conditional, "
                "or write channels after the gates instead of qml.add_noise."
            )
        if self._state.deferred_error is not None:
            raise self._state.deferred_error
        before, after = self._noise.find_outcome_noise(label, reset=reset, postselect=postselect)
        self.apply_noise(before)
        outcome = super().mid_measure(label, reset=reset, postselect=postselect, site=site)
        self.apply_noise(after)
        self._state.outcomes.append(outcome)
        return outcome

    def for_loop(
        self,
        n_iterations: int | Operand,
        body: Callable[..., Any],
        carried: tuple[Any, ...],
        *,
        can_unroll: bool = False,
    ) -> tuple[Any, ...]:
        """Forward a for loop to the next interpreter, and record the values that it carries.

        A condition that is computed from these values, which are tracers, may depend on mid-circuit
        outcomes. The arguments and the result are as in `Interpreter.for_loop`.
        """
        return super().for_loop(
            n_iterations, self._record_carried(body), carried, can_unroll=can_unroll
        )

    def while_loop(
        self, condition: Callable[..., Any], body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Forward a while loop to the next interpreter, and record the values that it carries."""
        return super().while_loop(condition, self._record_carried(body), carried)

    def _record_carried(self, body: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a loop's body so that it records the tracers of the carried values.

        They are appended to this pass's state, where `_is_decided_by_outcome` finds them: a
        condition that is computed from carried values may depend on an outcome.
        """

        def step(carried: tuple[Any, ...], *iteration: Any) -> Any:
            self._state.carried.extend(jax.tree.leaves(carried))
            return body(carried, *iteration)

        return step

    def branch(self, branches: Branches) -> Any:
        """Forward a conditional; if an outcome decides it, add the noise of all branches.

        As in PennyLane, the noise of a gate in a branch does not depend on the outcome: the branch
        that is taken applies its gates with their noise, and also the noise of the gates in the
        remaining branches.

        Raises:
            CompileError: if it is unknown whether an outcome decides, or if a branch on an outcome
                has noise and a callback with an effect.
        """
        if not self._is_decided_by_outcome(branches):
            return super().branch(branches)
        is_outer_taken = self._state.is_branch_taken is not False
        functions = branches.functions
        noisy = {n for n, branch in enumerate(functions) if self._has_noise(branch)}

        def run(number: int) -> Any:
            """Apply gates and noise of one branch, and only the noise of each other branch.

            Args:
                number: the index of the branch, whose result is returned.
            """
            results = {
                n: self._run_branch(branch, is_taken=n == number and is_outer_taken)
                for n, branch in enumerate(functions)
                if n == number or n in noisy
            }
            return results[number]

        every = [functools.partial(run, number) for number in range(len(functions))]
        return super().branch(branches._replace(functions=every))

    def group_by_noise(self, leaves: Sequence[Any]) -> list[tuple[list[Any], list[int]]]:
        """Group the measurements at the end of the circuit by the noise before them.

        The caller applies the noise of each group to a copy of the final state.

        Args:
            leaves: the leaves of the quantum function's result. A leaf that is not a measurement of
                wires has no noise: noise at the end does not change mid-circuit outcomes.

        Returns:
            for each group, its noise operations and the indices of its leaves. Each leaf is in one
            group.
        """
        groups: list[tuple[list[Any], list[int]]] = []
        for number, leaf in enumerate(leaves):
            is_at_end = is_measurement(leaf) and leaf.mv is None
            noise = self._noise.find_measurement_noise(leaf) if is_at_end else []
            same = (indices for each, indices in groups if _is_same_sequence(each, noise))
            indices = next(same, None)
            if indices is None:
                groups.append((noise, [number]))
            else:
                indices.append(number)
        return groups

    def apply_noise(self, operations: Sequence[Any]) -> None:
        """Forward operations to the next interpreter without adding noise to them.

        The dtypes of their parameters count for the precision of the results.

        Args:
            operations: noise operations, or gates together with their noise.
        """
        self.precision.include([op.data for op in operations])
        self.target.apply(operations)

    def _add_noise(self, op: qml.operation.Operator) -> list[Any]:
        """Return an operation with its noise, in order.

        In a branch that is not taken, return the noise alone. Control flow is returned unchanged.
        """
        seen = self._state
        is_first, seen.is_first = seen.is_first, False
        if ControlFlow.is_instance(op):
            return [op]
        if seen.is_branch_taken is None:
            return self._noise.add_noise(op, is_first=is_first)
        noisy = self._noise.add_conditional_noise(op)
        seen.has_branch_noise |= len(noisy) > 1
        return noisy if seen.is_branch_taken else [each for each in noisy if each is not op]

    def _is_decided_by_outcome(self, branches: Branches) -> bool:
        """Return whether a conditional's index is computed from a mid-circuit outcome.

        This is unknown if the index comes from a loop or another conditional, which may pass on an
        outcome.

        Args:
            branches: the conditional; its index is usually a tracer.

        Raises:
            CompileError: if this is unknown, and the circuit has measured mid-circuit. If it has
                not, the next mid-circuit measurement raises the error.
        """
        outcomes = set(map(id, self._state.outcomes))
        carried = set(map(id, self._state.carried))
        here, behind = find_origins(branches.index, self._state.outcomes)
        if here & outcomes:
            return True
        # A loop or conditional that carries the state may also pass on an outcome.
        if (here | behind) & carried or behind & {*outcomes, id(self._outcomes)}:
            error = CompileError(
                f"{self.where}: the condition of a {branches.construct} may depend on mid-circuit "
                "outcomes through the values of a loop or a conditional, which is not supported "
                "with qml.add_noise. Compute the condition from the outcome itself, or write "
                "channels after the gates instead of qml.add_noise."
            )
            if self._circuit.has_mid_circuit:
                raise error
            self._state.deferred_error = self._state.deferred_error or error
        return False

    def _has_noise(self, branch: Callable[[], Any]) -> bool:
        """Return whether a gate in a branch on a mid-circuit outcome has noise.

        The branch is traced to find out; its gates are not applied.

        Args:
            branch: the branch, a function without arguments.

        Raises:
            CompileError: if the branch has noise, and a callback with an effect.
        """
        seen = self._state
        before, seen.has_branch_noise = seen.has_branch_noise, False

        def part() -> tuple[()]:
            """Run the branch, and apply its noise only."""
            self._run_branch(branch, is_taken=False)
            return ()

        closed = self._circuit.trace_part(part)
        has_noise = seen.has_branch_noise
        seen.has_branch_noise |= before
        if has_noise and closed.effects:
            raise CompileError(
                f"{self.where}: a callback with an effect in a branch on a mid-circuit "
                "outcome is not supported with qml.add_noise, since noise is applied whichever "
                "branch is taken. Move the callback out of the branch."
            )
        return has_noise

    def _run_branch(self, branch: Callable[[], Any], *, is_taken: bool) -> Any:
        """Run a branch on a mid-circuit outcome, and return its result.

        Args:
            branch: the branch, a function without arguments that applies gates to this pass.
            is_taken: True to apply gates with their noise, False to apply the noise only.
        """
        before, self._state.is_branch_taken = self._state.is_branch_taken, is_taken
        try:
            return branch()
        finally:
            self._state.is_branch_taken = before


def _is_same_sequence(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Return whether two sequences have the same operations."""
    return len(left) == len(right) and all(map(NoiseInserter.is_same_operation, left, right))


_CONTROL_FLOW = (cond_p, scan_p, while_p)


def find_origins(value: object, boundaries: Sequence[Any]) -> tuple[set[int], set[int]]:
    """Find the tracers from which a value is computed, by a search of equations.

    The search stops at ``boundaries``, and at tracers without an equation, such as arguments of the
    traced function. These tracers are the origins.

    Args:
        value: a value that is being traced; a concrete value has no origins.
        boundaries: tracers at which the search stops.

    Returns:
        two sets with the ``id`` of each origin: origins from which the value is computed without
        loops and conditionals, and origins that reach the value through a loop or conditional.
    """
    stops = set(map(id, boundaries))
    origins: tuple[set[int], set[int]] = set(), set()
    seen: dict[tuple[int, bool], Any] = {}
    todo = [(value, False)]
    while todo:
        wrapped, is_behind = todo.pop()
        each = unwrap_tracer(wrapped)
        key = id(each), is_behind
        if not isinstance(each, Tracer) or key in seen:
            continue
        seen[key] = each
        eqn, _ = find_equation(each)
        if eqn is None or id(each) in stops:
            origins[is_behind].add(id(each))
            continue
        is_inside = is_behind or eqn.primitive in _CONTROL_FLOW
        todo += [(operand, is_inside) for operand in eqn.in_tracers]
    return origins
