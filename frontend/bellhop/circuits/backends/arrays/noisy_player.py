"""Add the noise of a PennyLane noise model while a gate jaxpr is interpreted.

Noise is inserted after each operation where it is applied, so loops and conditionals remain.  The
noise model sees a gate in a branch on a mid-circuit outcome as a ``qml.ops.Conditional``.  As in
PennyLane, the noise after such a gate does not depend on the outcome.  If ``model`` adds ``noise``
on wire 0::

    m = measure(0)                          m = measure(0); noise
    qml.cond(m, qml.X, qml.Y)(0)            if m:  X(0); noise;       noise
                                            else:        noise; Y(0); noise
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, cast

import jax
import pennylane as qml
from jax.core import Tracer
from jax.extend.core import JaxprEqn
from jax.extend.core.primitives import cond_p, scan_p, while_p

from bellhop._jax.jaxprs import find_equation, unwrap_tracer
from bellhop.base.types import Operand, PyTree, Wire
from bellhop.circuits.backends.arrays.simulated_circuit import SimulatedCircuit
from bellhop.circuits.gates.tape_control_flow import ControlFlow
from bellhop.circuits.ir.measurement_types import is_measurement
from bellhop.circuits.ir.statistics import Statistic
from bellhop.circuits.passes.gate_replay import Body, Player, identity
from bellhop.circuits.passes.noise_models import NoiseInserter
from bellhop.circuits.passes.operation_transforms import Rewrite
from bellhop.errors import CompileError
from bellhop.tracing.state import circuit_scope


@dataclass
class _NoiseState:
    """The progress of a `NoisyPlayer`.

    Attributes:
        is_first: whether no operation was applied yet.
        is_branch_taken: in branches on a mid-circuit outcome, whether gates are applied with their
            noise (True) or noise alone (False); elsewhere None.
        has_branch_noise: whether such a branch had noise.
        outcomes: the outcomes of mid-circuit measurements.
        carried: values carried by loops, whose origin is unknown while a loop's body is traced.
        deferred_error: the error to raise at the next measurement, if a condition was assumed not
            to depend on outcomes.
    """

    is_first: bool = True
    is_branch_taken: bool | None = None
    has_branch_noise: bool = False
    outcomes: list[Any] = field(default_factory=list)
    carried: list[Any] = field(default_factory=list)
    deferred_error: CompileError | None = None


@dataclass(frozen=True, kw_only=True)
class NoisyPlayer(Player):
    """An interpreter of gate jaxprs that adds the noise of a noise model.

    Args:
        noise: inserts the noise around operations.
        rewrite: rewrites operations after noise was added.
        noise_state: the progress so far, shared with interpreters of nested jaxprs.
    """

    noise: NoiseInserter
    rewrite: Rewrite
    noise_state: _NoiseState = field(default_factory=_NoiseState)

    @property
    def circuit(self) -> SimulatedCircuit:
        """The circuit that is being traced."""
        return cast(SimulatedCircuit, super().circuit)

    def emit(self, operations: list[Any]) -> None:
        """Apply operations with noise around them, in order."""
        noisy = [each for op in operations for each in self._add_noise(op)]
        inside = replace(self, change=identity)
        for is_played, group in itertools.groupby(noisy, ControlFlow.is_instance):
            if is_played:
                for op in group:
                    inside.play_operation(op)
            else:
                self._apply_noisy(list(group))

    def allocate(self, op: qml.operation.Operator) -> NoReturn:
        """Raise an error: noise models do not support dynamically allocated wires."""
        raise CompileError(
            f"{self.circuit.where}: {op.name} with qml.add_noise is supported only in circuits "
            "without measure, conditionals and loops with a dynamic trip count. Use wires of the "
            "device, or write channels after the gates."
        )

    def mid_measure(self, label: Wire, *, reset: bool, postselect: int, site: str) -> Any:
        """Measure a wire with noise around the measurement, and return the outcome."""
        if self.noise_state.is_branch_taken is not None:
            raise CompileError(
                f"{self.circuit.where}: a measure ({site}) in a conditional on a mid-circuit "
                "outcome is not supported with qml.add_noise. Measure outside of the conditional, "
                "or write channels after the gates instead of qml.add_noise."
            )
        if self.noise_state.deferred_error is not None:
            raise self.noise_state.deferred_error
        kept = None if postselect < 0 else postselect
        measured = qml.ops.MidMeasure(wires=qml.wires.Wires(label), reset=reset, postselect=kept)
        noisy = self.noise.add_noise(measured)
        place = next(n for n, each in enumerate(noisy) if each is measured)
        self._apply_noisy(noisy[:place])
        outcome = super().mid_measure(label, reset=reset, postselect=postselect, site=site)
        self._apply_noisy(noisy[place + 1 :])
        self.noise_state.outcomes.append(outcome)
        return outcome

    def _interpret_outcome(self, eqn: JaxprEqn, *operands: Operand) -> list[Any]:
        """Interpret a mid-circuit measurement; raise an error for ``pauli_measure``."""
        if eqn.params["is_joint"]:
            raise CompileError(
                f"{self.circuit.where}: a pauli_measure ({eqn.params['site']}) is not supported "
                "with qml.add_noise, since PennyLane does not define its noise. Write channels "
                "after the gates instead of qml.add_noise."
            )
        return super()._interpret_outcome(eqn, *operands)

    def for_loop(
        self,
        n_iterations: int | Operand,
        body: Body,
        carried: PyTree = (),
        *,
        is_nest: bool = False,
    ) -> Any:
        """Run a for loop of the circuit with noise; return the carried values."""
        return super().for_loop(n_iterations, self._record_carried(body), carried, is_nest=is_nest)

    def while_loop(self, condition: Any, body: Body, carried: PyTree) -> Any:
        """Run a while loop of the circuit with noise; return the carried values."""
        return super().while_loop(condition, self._record_carried(body), carried)

    def _record_carried(self, body: Body) -> Body:
        """Wrap a loop's body to record its carried tracers in `noise_state`."""

        def record_body(player: Player) -> Callable[..., Any]:
            """Return the loop's body, which also records the carried tracers."""
            run = body(player)

            def step(carried: tuple[Any, ...], *iteration: Any) -> Any:
                self.noise_state.carried.extend(jax.tree.leaves(carried))
                return run(carried, *iteration)

            return step

        return record_body

    def branch(self, index: Operand, branches: Sequence[Callable[[Player], Any]]) -> Any:
        """Run one branch; if an outcome decides which, with the noise of all branches."""
        if not self._is_decided_by_outcome(index):
            return super().branch(index, branches)
        is_outer_taken = self.noise_state.is_branch_taken is not False
        noisy = {n for n, branch in enumerate(branches) if self._has_noise(branch)}

        def make_branch(number: int) -> Callable[[Player], Any]:
            """Return the branch with this number, with the noise of all other branches."""

            def run(_: Player) -> Any:
                """Run all branches that have noise, but only this one with its gates."""
                results = {
                    n: self._run_branch(branch, is_taken=n == number and is_outer_taken)
                    for n, branch in enumerate(branches)
                    if n == number or n in noisy
                }
                return results[number]

            return run

        return super().branch(index, list(map(make_branch, range(len(branches)))))

    def measure_statistics(
        self, circuit: SimulatedCircuit, leaves: Sequence[Any], **options: Any
    ) -> list[Statistic]:
        """Measure a circuit, each measurement after its own noise.

        Measurements with equal noise share one state.

        Args:
            circuit: the circuit, after all gates.
            leaves: return values of the quantum function.
            options: keyword arguments of the circuit's `measure_statistics`.

        Returns:
            a statistic for each leaf.
        """
        # Mid-circuit outcomes were measured before, so noise at the end does not affect them.
        is_at_end = lambda leaf: is_measurement(leaf) and leaf.mv is None
        noise = [
            self.noise.find_measurement_noise(leaf) if is_at_end(leaf) else [] for leaf in leaves
        ]
        before = circuit.state
        measured: dict[int, Statistic] = {}
        while len(measured) < len(leaves):
            first = noise[next(n for n in range(len(leaves)) if n not in measured)]
            indices = [n for n, each in enumerate(noise) if _is_same_sequence(each, first)]
            circuit.state = before
            with circuit_scope(circuit), qml.QueuingManager.stop_recording():
                self._apply_noisy(first)
            statistics = circuit.measure_statistics([leaves[n] for n in indices], **options)
            measured.update(zip(indices, statistics, strict=True))
        return [measured[n] for n in range(len(leaves))]

    def _add_noise(self, op: qml.operation.Operator) -> list[Any]:
        """Return an operation with noise around it, or the noise alone in other branches."""
        seen = self.noise_state
        is_first, seen.is_first = seen.is_first, False
        if ControlFlow.is_instance(op):
            return [op]
        if seen.is_branch_taken is None:
            return self.noise.add_noise(op, is_first=is_first)
        noisy = self.noise.add_conditional_noise(op)
        seen.has_branch_noise |= len(noisy) > 1
        return noisy if seen.is_branch_taken else [each for each in noisy if each is not op]

    def _apply_noisy(self, operations: Sequence[Any]) -> None:
        """Apply operations whose noise was added before."""
        self.circuit.precision.include([op.data for op in operations])
        self.circuit.apply(self.rewrite(operations))

    def _is_decided_by_outcome(self, index: Operand) -> bool:
        """Return whether the condition of a branch is computed from a mid-circuit outcome.

        Raises:
            CompileError: if this cannot be determined, and the circuit has mid-circuit
                measurements.
        """
        outcomes = set(map(id, self.noise_state.outcomes))
        carried = set(map(id, self.noise_state.carried))
        here, behind = find_origins(index, self.noise_state.outcomes)
        if here & outcomes:
            return True
        # A loop or conditional that carries the state may also pass on an outcome.
        if (here | behind) & carried or behind & {*outcomes, id(self.circuit.outcomes)}:
            error = CompileError(
                f"{self.circuit.where}: the condition of a cond may depend on mid-circuit outcomes "
                "through the values of a loop or a conditional, which is not supported with "
                "qml.add_noise. Compute the condition from the outcome itself, or write "
                "channels after the gates instead of qml.add_noise."
            )
            if self.circuit.has_mid_circuit:
                raise error
            self.noise_state.deferred_error = self.noise_state.deferred_error or error
        return False

    def _has_noise(self, branch: Callable[[Player], Any]) -> bool:
        """Return whether a branch on a mid-circuit outcome has noise.

        Raises:
            CompileError: if the branch has noise and a callback with an effect.
        """
        seen = self.noise_state
        before, seen.has_branch_noise = seen.has_branch_noise, False

        def part() -> tuple[()]:
            self._run_branch(branch, is_taken=False)
            return ()

        closed = self.circuit.trace_part(part)
        has_noise = seen.has_branch_noise
        seen.has_branch_noise |= before
        if has_noise and closed.effects:
            raise CompileError(
                f"{self.circuit.where}: a callback with an effect in a branch on a mid-circuit "
                "outcome is not supported with qml.add_noise, since noise is applied whichever "
                "branch is taken. Move the callback out of the branch."
            )
        return has_noise

    def _run_branch(self, branch: Callable[[Player], Any], *, is_taken: bool) -> Any:
        """Run a branch with its gates and noise, or with its noise alone."""
        before, self.noise_state.is_branch_taken = self.noise_state.is_branch_taken, is_taken
        try:
            return branch(self)
        finally:
            self.noise_state.is_branch_taken = before


def _is_same_sequence(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Return whether two sequences have the same operations."""
    return len(left) == len(right) and all(map(NoiseInserter.is_same_operation, left, right))


_CONTROL_FLOW = (cond_p, scan_p, while_p)


def find_origins(value: object, boundaries: Sequence[Any]) -> tuple[set[int], set[int]]:
    """Return the tracers from which a value is computed.

    Args:
        value: a value that is being traced.
        boundaries: tracers at which the search stops, as at arguments.

    Returns:
        two sets of ids: of the tracers from which the value is computed directly, and of the
        tracers that reach the value through a loop or a conditional.
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
