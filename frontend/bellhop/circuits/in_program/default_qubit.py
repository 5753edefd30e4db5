"""Circuits on ``default.qubit``: traced into the program, gate by gate.

The state is an array of the program, and gates and measurements are PennyLane's own functions
of it.  So such a circuit differentiates to any order, is batched by ``jax.vmap``, and runs on
whatever device the region around it runs on.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml
from pennylane.devices.qubit import measure
from pennylane.operation import StatePrepBase

from bellhop.circuits.derivatives.undifferentiable import undifferentiable
from bellhop.circuits.gates.broadcasting import Rows
from bellhop.circuits.gates.control_flow import is_control_flow
from bellhop.circuits.gates.gates import DECOMPOSITION_DEPTH, check_is_gate
from bellhop.circuits.gates.wires import WireMap, is_dynamic
from bellhop.circuits.in_program.held_states import held
from bellhop.circuits.in_program.shots import ShotsOfBranch
from bellhop.circuits.measure.computed_wires import on_known_wires, probabilities_on_known_wires
from bellhop.circuits.measure.density_matrices import is_of_density_matrix, of_density_matrix
from bellhop.circuits.measure.observables import Factor, Named
from bellhop.circuits.measure.outcome_statistics import exact_of_outcomes
from bellhop.circuits.measure.sampling import Asked, sampled_statistics
from bellhop.circuits.measure.statistics import (
    Statistic,
    state_of_mixture,
    terms_of,
    unsupported,
    variance,
)
from bellhop.circuits.operations.state_array import (
    after_gate,
    in_precision,
    inner_product,
    is_applied,
    is_traced,
    on_qubits,
    prepared,
)
from bellhop.circuits.operations.wire_faults import WireFaults
from bellhop.circuits.process_kind import kind
from bellhop.circuits.recording.nested import NestingCircuit, apply_control_flow
from bellhop.control_flow.branches import choose
from bellhop.control_flow.for_loop import repeat
from bellhop.control_flow.while_loop import repeat_while
from bellhop.errors import CompileError

mp = qml.measurements
_MOMENTS = (mp.ExpectationMP, mp.VarianceMP)

# Exact methods, all of which have the values that JAX computes through the state.
_EXACT_METHODS = ("best", "backprop", "adjoint", "parameter-shift")
_METHODS_WITH_SHOTS = ("best", "parameter-shift")


def is_default_qubit(device: Any) -> bool:
    """Tell whether circuits on a PennyLane device are traced into the program."""
    return isinstance(device, qml.devices.DefaultQubit)


class DefaultQubitCircuit(NestingCircuit):
    """A circuit whose state is an array with one axis of two for each qubit.

    Args:
        wires: gives the qubit of a wire label.
        where: the QNode, for errors.
        outcomes: the outcomes of mid-circuit measurements, a bit for each.
        rows: the batches of parameters.
        shots: the shots of the circuit, as they fall to these outcomes; None without.
        faults: what may be wrong with its wires.

    A measurement projects the state and does not normalize it, so that its squared norm is the
    probability of these outcomes.

    Attributes:
        n_outcomes: how many measurements there are at most, on any branch through the circuit.
        fault: the first with wires that the program computes.
    """

    def __init__(
        self,
        wires: WireMap,
        where: str,
        outcomes: Any,
        rows: Rows,
        shots: ShotsOfBranch | None,
        faults: WireFaults,
    ) -> None:
        super().__init__(where, rows)
        self.wires = wires
        self._shots = shots
        self._state = prepared(wires)
        self._is_fresh = True
        self._faults = faults
        self.fault = faults.none()
        self._outcomes = outcomes
        # How many measurements there were on the way.
        self._place: Any = jnp.int32(0)
        self.n_outcomes = 0
        self.postselects = False
        self._n_outcomes_of_part = 0

    def apply(self, operations: Sequence[Any]) -> None:
        """Apply operations to the state, in order."""
        with qml.QueuingManager.stop_recording():
            for op in operations:
                self._apply(op)
        # Gates with parameters of half the precision must not change the type of a loop's state.
        self._state = in_precision(self._state)

    def _apply(self, op: Any, depth: int = 0) -> None:
        if is_control_flow(op):
            apply_control_flow(self, op)
            return
        if depth == 0:
            what = f"'{op.name}'"
            self.fault = self._faults.after(self.fault, op.wires, what, self.site_of(op))
        check_is_gate(op, self._where)
        op = self.rows.of(op)
        if self._is_fresh and isinstance(op, StatePrepBase):
            self._state = prepared(self.wires, op)
        elif is_applied(op):
            self._state = after_gate(op, self._state, self.wires)
        elif op.has_decomposition and depth < DECOMPOSITION_DEPTH:
            for part in op.decomposition():
                self._apply(part, depth + 1)
            return
        else:
            raise CompileError(
                f"{self._where}: the device does not apply {op.name}, and PennyLane has no "
                "decomposition of it. Use gates that it has."
            )
        self._is_fresh = False

    def for_loop(
        self, n_iterations: Any, body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Run a loop whose body applies gates; return the carried values."""
        self.flush_active("for_loop")

        def step(carried: tuple[Any, ...], iteration: Any) -> tuple[Any, ...]:
            return self._after(carried, body, carried[3:], iteration)

        self._state, self._place, self.fault, *rest = repeat(
            n_iterations, step, (*self._now, *carried)
        )
        if isinstance(n_iterations, int):
            self.n_outcomes += n_iterations * self._n_outcomes_of_part
        else:
            self._refuse_outcomes("a for_loop whose bounds are computed in the program")
        return tuple(rest)

    def while_loop(
        self,
        condition: Callable[..., Any],
        body: Callable[..., Any],
        carried: tuple[Any, ...],
    ) -> tuple[Any, ...]:
        """Run a loop whose body applies gates while a condition on the carried values holds."""
        self.flush_active("while_loop")

        def goes_on(carried: tuple[Any, ...]) -> Any:
            return self.evaluate_condition(condition, carried[3:])

        def step(carried: tuple[Any, ...]) -> tuple[Any, ...]:
            return self._after(carried, body, carried[3:])

        before = *self._now, *carried
        self._state, self._place, self.fault, *rest = repeat_while(goes_on, step, before)
        self._refuse_outcomes("a while_loop")
        return tuple(rest)

    def branch(
        self,
        construct: str,
        index: Any,
        names: Sequence[str],
        branches: Sequence[Callable[[], Any]],
    ) -> Any:
        """Run the branch with a number, which may apply gates; return its result."""
        self.flush_active(construct)
        before = self._now
        counts = []

        def recorded(branch: Callable[[], Any]) -> Callable[[], Any]:
            def run() -> Any:
                results = self._after(before, lambda: (branch(),))
                counts.append(self._n_outcomes_of_part)
                return results

            return run

        runs = [recorded(branch) for branch in branches]
        self._state, self._place, self.fault, result = choose(construct, index, names, runs)
        self.n_outcomes += max(counts)
        return result

    def _after(
        self, before: Sequence[Any], function: Callable[..., Any], *args: Any
    ) -> tuple[Any, ...]:
        """Run a part of the circuit; return what it is after it, and its results."""
        outer = *self._now, self.n_outcomes
        self._state, self._place, self.fault, *_ = before
        self.n_outcomes, self._is_fresh = 0, False
        try:
            with self.queue():
                results = function(*args)
            self._n_outcomes_of_part = self.n_outcomes
            return (*self._now, *results)
        finally:
            self._state, self._place, self.fault, self.n_outcomes = outer

    @property
    def _now(self) -> tuple[Any, Any, Any]:
        return self._state, self._place, self.fault

    def _refuse_outcomes(self, construct: str) -> None:
        if self._n_outcomes_of_part:
            raise CompileError(
                f"{self._where}: a mid-circuit measurement stands in {construct}, and on "
                "default.qubit their number must be known. Use bounds that are Python numbers, or "
                "qml.device('lightning.qubit', wires=...)."
            )

    def mid_measure(self, label: Any, *, reset: bool, postselect: int, site: str) -> Any:
        """Project a wire on its outcome, and return that."""
        self.flush_active("measure")
        outcome = (self._outcomes >> self._place.astype(jnp.uint32)) & 1
        is_asked_for = outcome == postselect if postselect >= 0 else True
        one = jnp.where(is_asked_for, outcome, 0).astype(float)
        zero = jnp.where(is_asked_for, 1 - outcome, 0).astype(float)
        # To the outcome, or with a reset to zero.
        rows = [[zero, one], [0, 0]] if reset else [[zero, 0], [0, one]]
        with qml.QueuingManager.stop_recording():
            projector = qml.Hermitian(jnp.array(rows), wires=label)
            what = "the mid-circuit measurement"
            self.fault = self._faults.after(self.fault, projector.wires, what, site)
            self._state = in_precision(after_gate(projector, self._state, self.wires))
        self._place = self._place + 1
        self.n_outcomes += 1
        self.postselects |= postselect >= 0
        self._is_fresh = False
        return outcome == 1

    def statistics(
        self, processes: Sequence[Any], diff_method: str, *, is_single: bool
    ) -> list[Statistic]:
        """Measure; the values are exact, or with mid-circuit measurements those of one branch.

        Args:
            processes: PennyLane's measurement processes.
            diff_method: of the QNode.
            is_single: whether one branch alone is gone.
        """
        self.take_observables(processes)
        processes = [on_known_wires(self, process) for process in processes]
        methods = _EXACT_METHODS if self._shots is None else _METHODS_WITH_SHOTS
        with qml.QueuingManager.stop_recording():
            if self.n_outcomes:
                self._leave_other_branches()
            shots = 0 if self._shots is None else self._shots.is_here.size
            self._state = held(self._state, len(self.wires), shots, self._where)
            if self._shots is not None:
                statistics = self._sampled(processes, self._shots)
            else:
                statistics = [self._measured(process, is_single=is_single) for process in processes]
        if diff_method in methods:
            return statistics
        obstacle = (
            f"{self._where}: it is differentiated, and its diff_method is '{diff_method}'; on "
            f"default.qubit bellhop supports {', '.join(map(repr, methods))}"
            f"{'' if self._shots is None else ' with shots'}."
        )
        guard = lambda value: undifferentiable(value, obstacle)
        return [replace(s, values=jax.tree.map(guard, s.values)) for s in statistics]

    def _leave_other_branches(self) -> None:
        # Bits that this branch through the circuit has no measurement for count once.
        is_branch = self._outcomes >> self._place.astype(jnp.uint32) == 0
        self._state = jnp.where(is_branch, self._state, 0)

    def _sampled(self, processes: Sequence[Any], shots: ShotsOfBranch) -> list[Statistic]:
        return [
            replace(statistic, values=jax.tree.map(shots.here, statistic.values))
            if statistic.is_of_shots
            else statistic
            for statistic in sampled_statistics(self, processes)
        ]

    def sample(self, asked: Sequence[Asked]) -> list[Any]:
        """Return what is asked of one round of samples."""
        assert self._shots is not None
        return self._shots.sample(self._state, asked)

    def mean_of_groups(self, value: Any) -> Any:
        """Return what these outcomes add to the mean of a value of them, for each group."""
        assert self._shots is not None
        return self._shots.mean_of_groups(value, self.weight())

    def of_each_shot(self, value: Any) -> Any:
        """Return a value of these outcomes, a row for each shot."""
        assert self._shots is not None
        return jnp.broadcast_to(value, (*self._shots.is_here.shape, *value.shape))

    def here(self, samples: Any) -> Any:
        """Return a row for each shot with zeros in place of the shots of other outcomes."""
        assert self._shots is not None
        return self._shots.here(samples)

    def weight(self) -> Any:
        """Return the probability of the outcomes."""
        return inner_product(self._state, self._state)

    def _measured(self, process: Any, *, is_single: bool) -> Statistic:
        """Return the statistic of a measurement, which is a sum over all branches.

        Args:
            process: PennyLane's measurement process.
            is_single: whether there is one branch only.
        """
        if process.mv is not None and self.n_outcomes:
            numbers, finish = exact_of_outcomes(process, self._where)
            return Statistic([self.weight() * number for number in numbers], finish)
        self._check(process)
        if process.obs is not None and isinstance(process, _MOMENTS):
            square, mean = self._moments(process)
            if isinstance(process, mp.ExpectationMP):
                return Statistic(mean)
            return Statistic((mean, square), variance)
        if is_of_density_matrix(process):
            reduced, result = of_density_matrix(process, self.wires, self._where)
            return Statistic(reduced(self._state), result)
        if isinstance(process, mp.StateMP) and self.n_outcomes:
            if not is_single:
                raise state_of_mixture(self._where)
            # What is divided by the probability of the branch, as all that is measured is.
            return Statistic(jnp.ravel(self._state) * jnp.sqrt(self.weight()))
        return Statistic(self._of_state(process))

    def _of_state(self, process: Any) -> Any:
        is_of_wires = isinstance(process, mp.ProbabilityMP) and process.obs is None
        if not is_of_wires or not any(map(is_dynamic, process.wires)):
            return measure(on_qubits(process, self.wires), self._state)
        add_up = probabilities_on_known_wires(self, process)
        of_all = mp.ProbabilityMP(wires=qml.wires.Wires(self.wires.labels))
        return add_up(measure(on_qubits(of_all, self.wires), self._state))

    def _check(self, process: Any) -> None:
        name = kind(process)
        if process.mv is not None:
            raise unsupported(
                self._where,
                f"{name} of mid-circuit outcomes that there are not",
                "Measure with bellhop.measure.",
            )
        if isinstance(process, mp.SampleMP | mp.CountsMP):
            raise unsupported(
                self._where, f"{name} without shots", "Set them: qml.set_shots(circuit, 100)."
            )
        if not isinstance(process, mp.StateMeasurement):
            raise unsupported(
                self._where,
                f"{name} without shots",
                "Measure expval, var, probs, state or density_matrix.",
            )
        is_moment = isinstance(process, _MOMENTS)
        if process.obs is not None and not is_moment and any(map(is_traced, process.obs.data)):
            # PennyLane keeps what it diagonalizes under a key that does not tell tracers apart.
            raise unsupported(
                self._where,
                "probs of an observable that the program computes, on default.qubit",
                "Use qml.device('lightning.qubit', wires=...).",
            )

    def _moments(self, process: Any) -> tuple[Any, Any]:
        """Return ``E[A**2]`` and ``E[A]``, by applying the observable to the state.

        PennyLane would diagonalize some observables, whose derivative is none where
        eigenvalues are equal.
        """
        terms = terms_of(process.obs, self._where)
        applied = sum(
            jnp.real(coefficient) * self._applied(factors) for coefficient, factors in terms
        )
        return inner_product(applied, applied), inner_product(self._state, applied)

    def _applied(self, factors: Sequence[Factor]) -> Any:
        state = self._state
        for factor in factors:
            if isinstance(factor, Named):
                op = getattr(qml, factor.name)(factor.wire)
            else:
                op = qml.Hermitian(factor.matrix, wires=factor.wires)
            state = after_gate(op, state, self.wires)
        return state
