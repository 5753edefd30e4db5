"""Noise models in circuits on ``default.mixed``: added while their jaxprs are played.

Noise follows each operation where it is applied, so loops and conditionals stay what they are.  A
gate that an outcome decides is a ``qml.ops.Conditional`` for the noise model, and the noise behind
it is not: it is there whatever the outcome, as in PennyLane.  Where ``model`` puts ``noise`` on
wire 0::

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
from bellhop.circuits.gates.tape_control_flow import is_control_flow
from bellhop.circuits.ir.measurement_types import is_measurement
from bellhop.circuits.ir.statistics import Statistic
from bellhop.circuits.passes.gate_replay import Body, Player, as_they_are
from bellhop.circuits.passes.noise_models import NoiseOfModel, is_same
from bellhop.circuits.passes.operation_transforms import Rewrite
from bellhop.errors import CompileError
from bellhop.tracing.state import circuit_scope


@dataclass
class _Seen:
    """What was played so far.

    Attributes:
        is_first: whether nothing was.
        is_taken: in branches that an outcome decides: whether gates are applied, or noise alone.
        has_noise_of_branch: whether there was noise in such a branch.
        outcomes: those of measurements.
        carried: what loops carry, whose origins are unknown while their bodies are traced.
        taken_for_granted: why there must be no measurement, where a conditional was taken for none
            of outcomes.
    """

    is_first: bool = True
    is_taken: bool | None = None
    has_noise_of_branch: bool = False
    outcomes: list[Any] = field(default_factory=list)
    carried: list[Any] = field(default_factory=list)
    taken_for_granted: CompileError | None = None


@dataclass(frozen=True, kw_only=True)
class NoisyPlayer(Player):
    """Plays on a circuit, with the noise of a model.

    Args:
        noise: that of the model.
        behind: changes operations that have noise around them.
        seen: what was played so far.
    """

    noise: NoiseOfModel
    behind: Rewrite
    seen: _Seen = field(default_factory=_Seen)

    @property
    def circuit(self) -> SimulatedCircuit:
        """The current circuit."""
        return cast(SimulatedCircuit, super().circuit)

    def emit(self, operations: list[Any]) -> None:
        """Apply operations with noise around them, in order."""
        noisy = [each for op in operations for each in self._with_noise(op)]
        inside = replace(self, change=as_they_are)
        for is_played, group in itertools.groupby(noisy, is_control_flow):
            if is_played:
                for op in group:
                    inside.play_operation(op)
            else:
                self._apply_as_is(list(group))

    def allocate(self, op: qml.operation.Operator) -> NoReturn:
        """Refuse: PennyLane's noise models see wires that are none of the device's."""
        raise CompileError(
            f"{self.circuit.where}: it has {op.name} and qml.add_noise, which are supported "
            "together in circuits of gates alone: no measure, conditional or loop of computed "
            "length. Use wires of the device, or write channels behind the gates."
        )

    def mid_measure(self, label: Wire, *, reset: bool, postselect: int, site: str) -> Any:
        """Measure a wire, with noise around that, and return the outcome."""
        if self.seen.is_taken is not None:
            raise CompileError(
                f"{self.circuit.where}: a measure ({site}) stands in a conditional that an outcome "
                "decides, where PennyLane has none, so noise models say nothing of it. Measure "
                "outside of it, or write channels behind the gates instead of qml.add_noise."
            )
        if self.seen.taken_for_granted is not None:
            raise self.seen.taken_for_granted
        kept = None if postselect < 0 else postselect
        measured = qml.ops.MidMeasure(wires=qml.wires.Wires(label), reset=reset, postselect=kept)
        noisy = self.noise.around(measured)
        place = next(n for n, each in enumerate(noisy) if each is measured)
        self._apply_as_is(noisy[:place])
        outcome = super().mid_measure(label, reset=reset, postselect=postselect, site=site)
        self._apply_as_is(noisy[place + 1 :])
        self.seen.outcomes.append(outcome)
        return outcome

    def _outcome(self, eqn: JaxprEqn, *operands: Operand) -> list[Any]:
        if eqn.params["is_joint"]:
            raise CompileError(
                f"{self.circuit.where}: a pauli_measure ({eqn.params['site']}) stands in a QNode "
                "with qml.add_noise, and PennyLane has no device that says what its noise is. "
                "Write channels behind the gates."
            )
        return super()._outcome(eqn, *operands)

    def for_loop(
        self,
        n_iterations: int | Operand,
        body: Body,
        carried: PyTree = (),
        *,
        is_nest: bool = False,
    ) -> Any:
        """Run a loop of the circuit's; return the carried values."""
        return super().for_loop(n_iterations, self._noting(body), carried, is_nest=is_nest)

    def while_loop(self, condition: Any, body: Body, carried: PyTree) -> Any:
        """Run a loop of the circuit's; return the carried values."""
        return super().while_loop(condition, self._noting(body), carried)

    def _noting(self, body: Body) -> Body:
        def noted(player: Player) -> Callable[..., Any]:
            run = body(player)

            def step(carried: tuple[Any, ...], *iteration: Any) -> Any:
                self.seen.carried.extend(jax.tree.leaves(carried))
                return run(carried, *iteration)

            return step

        return noted

    def branch(self, index: Operand, branches: Sequence[Callable[[Player], Any]]) -> Any:
        """Run one branch; where an outcome decides which, with the noise of all of them."""
        if not self._is_of_outcomes(index):
            return super().branch(index, branches)
        is_outer_taken = self.seen.is_taken is not False
        noisy = {n for n, branch in enumerate(branches) if self._has_noise(branch)}

        def with_noise_of_all(number: int) -> Callable[[Player], Any]:
            def run(_: Player) -> Any:
                results = {
                    n: self._value_of(branch, is_taken=n == number and is_outer_taken)
                    for n, branch in enumerate(branches)
                    if n == number or n in noisy
                }
                return results[number]

            return run

        return super().branch(index, list(map(with_noise_of_all, range(len(branches)))))

    def statistics(
        self, circuit: SimulatedCircuit, leaves: Sequence[Any], **options: Any
    ) -> list[Statistic]:
        """Measure a circuit, each measurement with the noise in front of it."""
        # Outcomes are no longer changed by noise.
        is_at_end = lambda leaf: is_measurement(leaf) and leaf.mv is None
        noise = [self.noise.behind(leaf) if is_at_end(leaf) else [] for leaf in leaves]
        before = circuit.state
        found: dict[int, Statistic] = {}
        while len(found) < len(leaves):
            first = noise[next(n for n in range(len(leaves)) if n not in found)]
            places = [n for n, each in enumerate(noise) if _are_same(each, first)]
            circuit.state = before
            with circuit_scope(circuit), qml.QueuingManager.stop_recording():
                self._apply_as_is(first)
            statistics = circuit.statistics([leaves[n] for n in places], **options)
            found.update(zip(places, statistics, strict=True))
        return [found[n] for n in range(len(leaves))]

    def _with_noise(self, op: qml.operation.Operator) -> list[Any]:
        seen = self.seen
        is_first, seen.is_first = seen.is_first, False
        if is_control_flow(op):
            return [op]
        if seen.is_taken is None:
            return self.noise.around(op, is_first=is_first)
        noisy = self.noise.around_conditional(op)
        seen.has_noise_of_branch |= len(noisy) > 1
        return noisy if seen.is_taken else [each for each in noisy if each is not op]

    def _apply_as_is(self, operations: Sequence[Any]) -> None:
        """Apply operations that have their noise."""
        self.circuit.precision.take([op.data for op in operations])
        self.circuit.apply(self.behind(operations))

    def _is_of_outcomes(self, index: Operand) -> bool:
        """Tell whether an outcome decides a conditional."""
        outcomes = set(map(id, self.seen.outcomes))
        carried = set(map(id, self.seen.carried))
        here, behind = origins(index, self.seen.outcomes)
        if here & outcomes:
            return True
        # A state knows of the outcomes that it was projected on.
        if (here | behind) & carried or behind & {*outcomes, id(self.circuit.outcomes)}:
            error = CompileError(
                f"{self.circuit.where}: whether outcomes decide a cond is unknown, since "
                "a loop carries what does or a conditional returns it, and noise models tell such "
                "gates from others. Compute the condition from the outcome itself, or write "
                "channels behind the gates instead of qml.add_noise."
            )
            if self.circuit.has_mid_circuit:
                raise error
            self.seen.taken_for_granted = self.seen.taken_for_granted or error
        return False

    def _has_noise(self, branch: Callable[[Player], Any]) -> bool:
        """Tell whether there is noise in a branch that an outcome decides."""
        seen = self.seen
        before, seen.has_noise_of_branch = seen.has_noise_of_branch, False

        def part() -> tuple[()]:
            self._value_of(branch, is_taken=False)
            return ()

        closed = self.circuit.traced_part(part)
        has_noise = seen.has_noise_of_branch
        seen.has_noise_of_branch |= before
        if has_noise and closed.effects:
            raise CompileError(
                f"{self.circuit.where}: a branch that an outcome decides calls Python for an "
                "effect, and its noise is there whether it is taken or not. Move the call out of "
                "the branch."
            )
        return has_noise

    def _value_of(self, branch: Callable[[Player], Any], *, is_taken: bool) -> Any:
        before, self.seen.is_taken = self.seen.is_taken, is_taken
        try:
            return branch(self)
        finally:
            self.seen.is_taken = before


def _are_same(ones: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(ones) == len(others) and all(map(is_same, ones, others))


_CONTROL_FLOW = (cond_p, scan_p, while_p)


def origins(value: object, ends: Sequence[Any]) -> tuple[set[int], set[int]]:
    """Return the tracers that a value is computed from.

    Args:
        value: is being traced.
        ends: tracers that count as computed from nothing, as arguments do.

    Returns:
        the ids of those that it is computed from, and of those that it is where a loop or a
        conditional stands between.
    """
    stops = set(map(id, ends))
    found: tuple[set[int], set[int]] = set(), set()
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
            found[is_behind].add(id(each))
            continue
        is_inside = is_behind or eqn.primitive in _CONTROL_FLOW
        todo += [(operand, is_inside) for operand in eqn.in_tracers]
    return found
