"""One circuit while its quantum function is traced: queued gates become primitives."""

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.circuits.broadcasting import Rows
from bellhop.circuits.device import DeviceSpec, GateSet
from bellhop.circuits.diff_method import DifferentiationChoice
from bellhop.circuits.differentiation import FINITE_DIFFERENCES
from bellhop.circuits.gates import GateList, GateRun
from bellhop.circuits.measurements import FREQUENCIES, SAMPLE, Measurement, MeasurementList
from bellhop.circuits.merging import merged, merged_turns
from bellhop.circuits.primitives import (
    NOT_DIFFERENTIABLE,
    gates_p,
    measure_p,
    mid_measure_p,
)
from bellhop.circuits.queue import QueuedCircuit
from bellhop.circuits.sampling import Asked, Frequency
from bellhop.circuits.shift_rules import NO_FREQUENCIES
from bellhop.circuits.turns import stacked_turns
from bellhop.circuits.uncounted import Uncounted
from bellhop.circuits.wires import WireMap, as_int32, is_dynamic
from bellhop.control_flow.tracing import Step, traced_branches, traced_step

# The parameters of the gates of so many turns of a loop are held at once.
_TURNS_IN_ONE_CALL = 1 << 18


class Circuit(QueuedCircuit):
    """The state handle, and the parameters of the gates so far, in order.

    What is flushed from the queue becomes one ``gates`` primitive for each straight run.
    """

    def __init__(
        self,
        handle: Any,
        device: DeviceSpec,
        gates: GateSet,
        wires: WireMap,
        where: str,
        differentiation: DifferentiationChoice,
        rows: Rows,
    ) -> None:
        super().__init__(where, rows)
        self._state = handle
        self._ticket = handle
        self._differentiation = differentiation
        self.device = device
        self.wires = wires
        self.has_mid_circuit = False
        # The shots of each group that there is a mean of.
        self.groups: tuple[int, ...] = ()
        self._gate_set = gates
        self._offset: Any = jnp.int32(0)
        self._params: list[Any] = []
        self._frequencies: list[np.ndarray] = []
        # Of gates in loops whose length only the run knows; None where there are none so far.
        self._uncounted: Uncounted | None = None
        self._is_uncounted = False
        self._uncounted_frequencies = NO_FREQUENCIES
        self._is_fresh = True
        # Gates that wait to be applied: those that follow are of the same run.
        self._run: GateRun | None = None
        # Whether what is traced is no more than they.
        self._is_one_run = False

    @property
    def handle(self) -> Any:
        """The state after everything that was flushed."""
        return self._handle

    @property
    def _handle(self) -> Any:
        self._settle()
        self._is_one_run = False
        return self._state

    @_handle.setter
    def _handle(self, handle: Any) -> None:
        self._state = handle

    def apply(self, operations: list[Any]) -> None:
        """Append the gates of operations."""
        gates = GateList(
            self._gate_set,
            self.wires,
            self._where,
            rows=self.rows,
            is_first=self._is_fresh,
            sites=self.site_of,
            by_differences=self._differentiation.method == FINITE_DIFFERENCES,
        )
        for op in operations:
            gates.add(op)
        for run in gates.runs:
            self._bind(run)

    def _bind(self, run: GateRun) -> None:
        self._is_fresh = False
        if self._run is not None and self._run.is_differentiable == run.is_differentiable:
            self._run.extend(run)
            return
        self._settle()
        self._run = run

    def _settle(self) -> None:
        """Apply the gates that wait."""
        run, self._run = self._run, None
        if run is None:
            return
        self._is_one_run = False
        run = merged(run, self.device.passes)
        if run.gates:
            self._apply(run, run.params_vector(), run.wires_vector())

    def _apply(self, run: GateRun, params: Any, wires: Any, turns: int = 1) -> None:
        obstacle = self._gates_obstacle(run)
        # First, since gates that wait are applied, and counted, when it is asked for.
        handle = self._handle
        uncounted = self._uncounted if self._is_uncounted else None
        offset = self._offset if uncounted is None else uncounted.number
        self._handle = gates_p.bind(
            handle,
            params,
            jnp.int32(NOT_DIFFERENTIABLE) if obstacle else offset,
            wires,
            gates=tuple(run.gates),
            turns=turns,
            obstacle=obstacle,
        )
        if not run.n_params or obstacle:
            return
        if uncounted is not None:
            self._uncounted = uncounted.add(self._ticket, params)
            self._uncounted_frequencies |= functools.reduce(operator.or_, run.frequencies)
            return
        self._offset = self._offset + jnp.int32(turns * run.n_params)
        self._params.append(params)
        self._frequencies.append(np.tile(np.asarray(run.frequencies, np.uint8), turns))

    def _gates_obstacle(self, run: GateRun) -> str:
        """Say why a derivative by the parameters of gates is none; nothing where it is one."""
        if not run.is_differentiable:
            names = ", ".join(dict.fromkeys(gate.name for gate in run.gates if gate.slots))
            return (
                f"the parameters of {names} are differentiated, which the adjoint method cannot "
                "do. Use gates with angles, diff_method='finite-diff', or differentiate by other "
                "arguments."
            )
        return ""

    def for_loop(
        self, trips: Any, iteration: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Run a loop whose body applies gates; return the carried values.

        The parameters of the gates in a loop of static length are stacked, so that their
        order is that of execution.

        Args:
            trips: how many iterations there are, an integer where that is known.
            iteration: takes the carried values and the number of the iteration; returns the
                next carried values.
            carried: the first carried values.
        """
        if isinstance(trips, int):
            return self._static_loop(trips, iteration, carried)
        carried, step, _ = self._traced_step(
            "for_loop", iteration, carried, jnp.asarray(0), is_uncounted=True
        )
        state = jax.lax.fori_loop(
            0, trips, lambda trip, state: step(state, trip)[0], self._circuit_state(carried)
        )
        return self._resume(state)

    def _static_loop(
        self, trips: int, iteration: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Run a loop of static length.

        Where an iteration is no more than a run of gates, the loop computes their parameters,
        and one call of the runtime applies the gates of all iterations after it.
        """
        trip = jnp.asarray(0)
        gates: list[GateRun] = []
        carried, step, frequencies = self._traced_step(
            "for_loop",
            iteration,
            carried,
            trip,
            gates_apart=gates if 1 < trips <= _TURNS_IN_ONE_CALL else None,
        )
        if not gates:
            state, stacked = jax.lax.scan(step, self._circuit_state(carried), jnp.arange(trips))
            self._params.append(jnp.ravel(stacked))
            self._frequencies.append(np.tile(frequencies, trips))
            return self._resume(state)
        _, *others = self._circuit_state(carried)

        def turn(carried: tuple[Any, ...], trip: Any) -> tuple[tuple[Any, ...], Any]:
            (carried, *_), inputs = step((carried, *others), trip)
            return carried, inputs

        carried, inputs = stacked_turns(turn, carried, trips)
        params, wires = inputs
        loop = merged_turns(gates[-1], params, self.device.passes)
        for run in loop.before:
            self._bind(run)
        if loop.run.gates:
            self._apply(loop.run, jnp.ravel(loop.params), jnp.ravel(wires), trips)
        for run in loop.after:
            self._bind(run)
        return tuple(carried)

    def while_loop(
        self,
        condition: Callable[..., Any],
        iteration: Callable[..., Any],
        carried: tuple[Any, ...],
    ) -> tuple[Any, ...]:
        """Run a loop whose body applies gates while a condition on the carried values holds."""

        def check(state: Any) -> Any:
            return self.evaluate_condition(condition, state[0])

        carried, step, _ = self._traced_step("while_loop", iteration, carried, is_uncounted=True)
        return self._resume(
            jax.lax.while_loop(check, lambda state: step(state)[0], self._circuit_state(carried))
        )

    def _circuit_state(self, carried: tuple[Any, ...]) -> Any:
        return carried, self._handle, self._offset, self._uncounted

    def _resume(self, state: Any) -> tuple[Any, ...]:
        carried, self._handle, self._offset, self._uncounted = state
        return tuple(carried)

    def _traced_step(
        self,
        construct: str,
        iteration: Callable[..., Any],
        carried: tuple[Any, ...],
        *others: Any,
        is_uncounted: bool = False,
        gates_apart: list[GateRun] | None = None,
    ) -> tuple[tuple[Any, ...], Step, np.ndarray]:
        """Trace an iteration with gates.

        Returns:
            the carried values in their types, a function that goes from state to state, and
            the frequencies of the parameters of an iteration.  Where the iteration is a run of
            gates and ``gates_apart`` is a list, that run is left there, and the function
            returns its parameters and wires instead of applying it.
        """
        self.flush_active(construct)
        frequencies = np.zeros(0, np.uint8)
        counts = self._uncounted is not None

        def recorded(carried: tuple[Any, ...], state: Any, *others: Any) -> Any:
            nonlocal frequencies, counts
            with self._part(*state, is_uncounted=is_uncounted):
                self._is_one_run = True
                with self.queue():
                    carried = iteration(carried, *others)
                if gates_apart is not None:
                    gates_apart.clear()
                    if self._is_one_run and self._run is not None:
                        run = merged(self._run, self.device.passes, is_last_sight=True)
                        gates_apart.append(run)
                        inputs = run.params_vector(), run.wires_vector()
                        return carried, (state, inputs)
                handle = self._handle
                frequencies = self._frequencies_vector()
                params = self._params_vector()
                counts = self._uncounted is not None
                return carried, ((handle, self._offset, self._uncounted), params)

        if is_uncounted:
            self._begin_uncounted()
        first = carried
        while True:
            _, *state = self._circuit_state(first)
            carried, run = traced_step(construct, recorded, first, tuple(state), *others)
            if not counts or self._uncounted is not None:
                break
            # There is a loop of unknown length in it.
            self._begin_uncounted()

        def step(state: Any, *others: Any) -> tuple[Any, Any]:
            carried, *rest = state
            carried, (rest, params) = run(carried, tuple(rest), *others)
            return (carried, *rest), params

        return carried, step, frequencies

    def _begin_uncounted(self) -> None:
        if self._uncounted is None:
            self._uncounted = Uncounted.first()

    @contextmanager
    def _part(
        self, handle: Any, offset: Any, uncounted: Uncounted | None, *, is_uncounted: bool = False
    ) -> Iterator[None]:
        """Record a part of the circuit that is traced apart, from a state of its own."""
        outer = self._handle, self._offset, self._uncounted, self._params, self._frequencies
        was_uncounted = self._is_uncounted
        self._handle, self._offset, self._uncounted = handle, offset, uncounted
        self._params, self._frequencies = [], []
        self._is_uncounted = was_uncounted or is_uncounted
        # What is in front of it at run time is not known.
        self._is_fresh = False
        try:
            yield
        finally:
            self._run = None
            self._is_one_run = False
            self._handle, self._offset, self._uncounted, self._params, self._frequencies = outer
            self._is_uncounted = was_uncounted

    def branch(
        self,
        construct: str,
        index: Any,
        names: Sequence[str],
        branches: Sequence[Callable[[], Any]],
    ) -> Any:
        """Run the branch with a number, which may apply gates; return its result.

        All branches count as many parameters as the one with the most, so that it is known
        where the next gate's stand; those that a branch lacks are zeros that nothing uses.
        """
        self.flush_active(construct)
        frequencies: list[np.ndarray] = []
        counts = self._uncounted is not None

        def recorded(branch: Callable[[], Any]) -> Step:
            def run(handle: Any, uncounted: Uncounted | None) -> tuple[Any, Any]:
                nonlocal counts
                with self._part(handle, self._offset, uncounted):
                    with self.queue():
                        result = branch()
                    handle = self._handle
                    frequencies.append(self._frequencies_vector())
                    counts |= self._uncounted is not None
                    return result, (handle, self._uncounted, self._params_vector())

            return run

        while True:
            frequencies.clear()
            runners, rest = traced_branches(
                construct,
                names,
                [recorded(branch) for branch in branches],
                self._handle,
                self._uncounted,
            )
            if not counts or self._uncounted is not None:
                break
            # There is a loop of unknown length in a branch.
            self._begin_uncounted()
        n_params = max(params.shape[0] for *_, params in rest)

        def padded(runner: Step) -> Step:
            def run(handle: Any, uncounted: Uncounted | None) -> tuple[Any, Any]:
                result, (handle, uncounted, params) = runner(handle, uncounted)
                params = jnp.pad(params, (0, n_params - params.shape[0]))
                return result, (handle, uncounted, params)

            return run

        result, (self._handle, self._uncounted, params) = jax.lax.switch(
            index, [padded(runner) for runner in runners], self._handle, self._uncounted
        )
        self._params.append(params)
        # A slot stands for a parameter of each branch, and its rule must hold for all of them.
        shared = np.zeros(n_params, np.uint8)
        for of_branch in frequencies:
            shared[: len(of_branch)] |= of_branch
        self._frequencies.append(shared)
        self._offset = self._offset + jnp.int32(n_params)
        return result

    def _params_vector(self) -> Any:
        return jnp.concatenate([jnp.zeros(0, jnp.float64), *self._params])

    def _frequencies_vector(self) -> np.ndarray:
        return np.concatenate([np.zeros(0, np.uint8), *self._frequencies])

    def mid_measure(self, label: Any, *, reset: bool, postselect: int, site: str) -> Any:
        """Measure a wire, collapse the state, and return the outcome."""
        self.flush_active("measure")
        if is_dynamic(label):
            wire = as_int32(self.wires.dynamic(label))
        else:
            wire = jnp.int32(self.wires(label))
        self._handle, outcome = mid_measure_p.bind(
            self._handle, wire, postselect=postselect, reset=reset, site=site
        )
        self._is_fresh = False
        self.has_mid_circuit = True
        if self._is_uncounted and self._uncounted is not None:
            self._uncounted, self._handle, outcome = self._uncounted.remember(
                self._handle, self._ticket, outcome
            )
        return outcome

    def measure(self, measured: MeasurementList) -> list[Any]:
        """Measure, and return the values in order."""
        if not measured.measurements:
            return []
        handle = self._handle
        differentiation = self._differentiation.of(
            measured.measurements,
            self._frequencies_vector().tobytes(),
            self._uncounted_frequencies,
            is_replayed=self.has_mid_circuit or self.device.shots > 0,
        )
        self._handle, *values = measure_p.bind(
            handle,
            measured.coefficient_vector(),
            measured.matrix_vector(),
            self._params_vector(),
            *([] if self._uncounted is None else [self._uncounted.token]),
            measurements=tuple(measured.measurements),
            device=self.device,
            differentiation=differentiation,
        )
        return values

    def sample(self, asked: Sequence[Asked]) -> list[Any]:
        """Return what is asked of one round of samples."""
        samples = MeasurementList(self.wires, self.where)
        samples.measurements += [
            Measurement(FREQUENCIES, wires=what.wires, signs=what.signs, groups=self.groups)
            if isinstance(what, Frequency)
            else Measurement(SAMPLE)
            for what in asked
        ]
        return self.measure(samples)

    def mean_of_groups(self, value: Any) -> Any:
        """Return the mean over each group of shots of what is the same in all of them."""
        return jnp.broadcast_to(value, (len(self.groups), *value.shape))

    def of_each_shot(self, value: Any) -> Any:
        """Return what is the same in all shots, a row for each."""
        return jnp.broadcast_to(value, (self.device.shots, *value.shape))
