"""Circuits on ``default.mixed`` that a noise model adds noise to while they are traced.

Noise follows each operation where it is applied, so loops and conditionals stay what they are.  A
gate that an outcome decides is a ``qml.ops.Conditional`` for the noise model, and the noise behind
it is not: it is there whatever the outcome, as in PennyLane.  Where ``model`` puts ``noise`` on
wire 0::

    m = measure(0)                          m = measure(0); noise
    qml.cond(m, qml.X, qml.Y)(0)            if m:  X(0); noise;       noise
                                            else:        noise; Y(0); noise
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import pennylane as qml

from bellhop.circuits.gates.control_flow import is_control_flow
from bellhop.circuits.gates.noise_models import NoiseOfModel, is_same
from bellhop.circuits.gates.rewrites import Rewrite
from bellhop.circuits.in_program.origins import origins
from bellhop.circuits.in_program.simulated_circuit import SimulatedCircuit
from bellhop.circuits.measure.process import is_measurement
from bellhop.circuits.measure.statistics import Statistic
from bellhop.control_flow.steps import Branches
from bellhop.errors import CompileError


class NoisyCircuit(SimulatedCircuit):
    """A circuit with the noise of a model.

    Args:
        noise: that of the model.
        behind: changes operations that have noise around them.
        args: those of a circuit without.
    """

    def __init__(self, noise: NoiseOfModel, behind: Sequence[Rewrite], *args: Any) -> None:
        super().__init__(*args)
        self._noise = noise
        self._behind = behind
        self._adds_noise = self._is_first = True
        # In branches that an outcome decides: whether gates are applied, or noise alone.
        self._is_taken: bool | None = None
        self._has_noise_of_branch = False
        self._measured_outcomes: list[Any] = []
        # What loops carry, whose origins are unknown while their bodies are traced.
        self._carried: list[Any] = []
        # Why there must be no measurement, where a conditional was taken for none of outcomes.
        self._taken_for_granted: CompileError | None = None

    def traced(self, function: Callable[..., Any], *args: Any) -> tuple[list[Any], Any]:
        """Run a quantum function; return the leaves and the structure of its result."""
        leaves, tree = super().traced(function, *args)
        self._adds_noise = False
        return leaves, tree

    def apply(self, operations: Sequence[Any]) -> None:
        """Apply operations with noise around them, in order."""
        if not self._adds_noise:
            super().apply(operations)
            return
        noisy = [each for op in operations for each in self._with_noise(op)]
        for is_played, group in itertools.groupby(noisy, is_control_flow):
            if is_played:
                super().apply(list(group))
            else:
                self._apply_as_is(list(group))

    def allocate(self, op: Any) -> None:
        """Refuse: PennyLane's noise models see wires that are none of the device's."""
        raise CompileError(
            f"{self._where}: it has {op.name} and qml.add_noise, which are supported together in "
            "circuits of gates alone: no measure, conditional or loop of computed length. Use "
            "wires of the device, or write channels behind the gates."
        )

    def mid_measure(self, label: Any, *, reset: bool, postselect: int, site: str) -> Any:
        """Measure a wire, with noise around that, and return the outcome."""
        if self._is_taken is not None:
            raise CompileError(
                f"{self._where}: a measure ({site}) stands in a conditional that an outcome "
                "decides, where PennyLane has none, so noise models say nothing of it. Measure "
                "outside of it, or write channels behind the gates instead of qml.add_noise."
            )
        if self._taken_for_granted is not None:
            raise self._taken_for_granted
        self.flush_active("measure")
        wires, kept = qml.wires.Wires(label), None if postselect < 0 else postselect
        with qml.QueuingManager.stop_recording():
            measured = qml.ops.MidMeasure(wires=wires, reset=reset, postselect=kept)
        noisy = self._noise.around(measured)
        place = next(n for n, each in enumerate(noisy) if each is measured)
        self._apply_as_is(noisy[:place])
        outcome = self._measured_now(label, reset=reset, postselect=postselect, site=site)
        self._apply_as_is(noisy[place + 1 :])
        self._measured_outcomes.append(outcome)
        return outcome

    def joint_measure(self, site: str) -> None:
        """Refuse a measurement that is made of gates, which noise would follow."""
        raise CompileError(
            f"{self._where}: a pauli_measure ({site}) stands in a QNode with qml.add_noise, and "
            "PennyLane has no device that says what its noise is. Write channels behind the gates."
        )

    def for_loop(
        self, n_iterations: Any, body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Run a loop whose body has gates; return the carried values."""

        def noted(carried: tuple[Any, ...], iteration: Any) -> Any:
            self._carried += jax.tree.leaves(carried)
            return body(carried, iteration)

        return super().for_loop(n_iterations, noted, carried)

    def while_loop(
        self, condition: Callable[..., Any], body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Run a loop whose body has gates while a condition on the carried values holds."""

        def noted(carried: tuple[Any, ...]) -> Any:
            self._carried += jax.tree.leaves(carried)
            return body(carried)

        return super().while_loop(condition, noted, carried)

    def branch(self, branches: Branches) -> Any:
        """Run one branch; where an outcome decides which, with the noise of all of them."""
        if not self._is_of_outcomes(branches):
            return super().branch(branches)
        self.flush_active(branches.construct)
        is_outer_taken = self._is_taken is not False
        noisy = {n for n, branch in enumerate(branches.functions) if self._has_noise(branch)}

        def with_noise_of_all(number: int) -> Callable[[], Any]:
            def run() -> Any:
                results = {
                    n: self._value_of(branch, is_taken=n == number and is_outer_taken)
                    for n, branch in enumerate(branches.functions)
                    if n == number or n in noisy
                }
                return results[number]

            return run

        functions = list(map(with_noise_of_all, range(len(branches.functions))))
        return super().branch(branches._replace(functions=functions))

    def statistics(
        self, leaves: Sequence[Any], diff_method: str, *, is_single: bool
    ) -> list[Statistic]:
        """Measure, each with the noise in front of it."""
        # Outcomes are no longer changed by noise.
        is_at_end = lambda leaf: is_measurement(leaf) and leaf.mv is None
        noise = [self._noise.behind(leaf) if is_at_end(leaf) else [] for leaf in leaves]
        before = self.state
        found: dict[int, Statistic] = {}
        while len(found) < len(leaves):
            first = noise[next(n for n in range(len(leaves)) if n not in found)]
            places = [n for n, each in enumerate(noise) if _are_same(each, first)]
            self.state = before
            self._apply_as_is(first)
            here = [leaves[n] for n in places]
            statistics = super().statistics(here, diff_method, is_single=is_single)
            found.update(zip(places, statistics, strict=True))
        return [found[n] for n in range(len(leaves))]

    def _with_noise(self, op: Any) -> list[Any]:
        is_first, self._is_first = self._is_first, False
        if is_control_flow(op):
            return [op]
        if self._is_taken is None:
            return self._noise.around(op, is_first=is_first)
        noisy = self._noise.around_conditional(op)
        self._has_noise_of_branch |= len(noisy) > 1
        return noisy if self._is_taken else [each for each in noisy if each is not op]

    def _apply_as_is(self, operations: list[Any]) -> None:
        """Apply operations that have their noise."""
        before, self._adds_noise = self._adds_noise, False
        try:
            self.precision.take([op.data for op in operations])
            for rewrite in self._behind:
                operations = rewrite(operations)
            super().apply(operations)
        finally:
            self._adds_noise = before

    def _is_of_outcomes(self, branches: Branches) -> bool:
        """Tell whether an outcome decides a conditional."""
        outcomes = set(map(id, self._measured_outcomes))
        carried = set(map(id, self._carried))
        here, behind = origins(branches.index, self._measured_outcomes)
        if here & outcomes:
            return True
        # A state knows of the outcomes that it was projected on.
        if (here | behind) & carried or behind & {*outcomes, id(self._outcomes)}:
            error = CompileError(
                f"{self._where}: whether outcomes decide a {branches.construct} is unknown, since "
                "a loop carries what does or a conditional returns it, and noise models tell such "
                "gates from others. Compute the condition from the outcome itself, or write "
                "channels behind the gates instead of qml.add_noise."
            )
            if self.has_mid_circuit:
                raise error
            self._taken_for_granted = self._taken_for_granted or error
        return False

    def _has_noise(self, branch: Callable[[], Any]) -> bool:
        """Tell whether there is noise in a branch that an outcome decides."""
        before, self._has_noise_of_branch = self._has_noise_of_branch, False
        now = self._now

        def part() -> tuple[()]:
            self._value_of(branch, is_taken=False)
            return ()

        closed = jax.make_jaxpr(lambda: self._after(now, part))()
        has_noise = self._has_noise_of_branch
        self._has_noise_of_branch |= before
        if has_noise and closed.effects:
            raise CompileError(
                f"{self._where}: a branch that an outcome decides calls Python for an effect, and "
                "its noise is there whether it is taken or not. Move the call out of the branch."
            )
        return has_noise

    def _value_of(self, branch: Callable[[], Any], *, is_taken: bool) -> Any:
        with self._in_branch(is_taken=is_taken):
            result = branch()
            self.flush_active("cond")
            return result

    @contextmanager
    def _in_branch(self, *, is_taken: bool) -> Iterator[None]:
        before, self._is_taken = self._is_taken, is_taken
        try:
            yield
        finally:
            self._is_taken = before


def _are_same(ones: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(ones) == len(others) and all(map(is_same, ones, others))
