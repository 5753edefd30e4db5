"""A circuit while its quantum function is traced: its loops and conditionals.

A loop of gates is split in two: its angles are computed as a vector, and one call of the runtime
applies the gates of all iterations.  From ``for_loop(0, 3)(lambda i: qml.RX(x * i, 0))()`` comes::

    angles = mul x [0. 1. 2.]
    state = quantum_gates[RX] state angles 0 [] 3

Where an iteration does more, here a print, the loop stays one that carries the state, and the
parameters of all iterations are stacked for the measurement::

    state offset angles = scan[
      jaxpr={ lambda x; state offset i. let
          angle = mul x i
          bellhop_print[target=print] i
          state = quantum_gates[RX] state [angle] offset []
        in (state, add offset 1, [angle]) }
      length=3
    ] x state 0 [0 1 2]

The branches of a conditional return parameter vectors of one length, padded with zeros.  From
``cond(x > 0, lambda: qml.RX(x, 0), lambda: qml.X(0))()`` comes::

    state angles = cond[
      branches=(
        { lambda x offset state. let s = quantum_gates[RX] state [x] offset [] in (s, [x]) }
        { lambda x offset state. let s = quantum_gates[X] state [] offset [] in (s, [0.0]) }
      )
    ] index x offset state
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.circuits.derivatives.dynamic_count import DynamicCount
from bellhop.circuits.gates.gate_run import RepeatedRun
from bellhop.circuits.gates.merging import merge_iterations, merged
from bellhop.circuits.recording.iterations import (
    Use,
    stack_iterations,
    use_iterations,
    use_iterations_while,
)
from bellhop.circuits.recording.straight_circuit import StraightCircuit
from bellhop.circuits.recording.unrolled import unrolled
from bellhop.control_flow.steps import Branches, Step, traced_branches, traced_step

# At most so many iterations are one call, which holds the parameters of all their gates.
_MOST_IN_ONE_CALL = 1 << 18


class Circuit(StraightCircuit):
    """A circuit with control flow, which is traced to ``scan``, ``while`` and ``cond``.

    If the body of a loop is only a run of gates and has no side effects, the program computes the
    parameters of all iterations first, and one call of the runtime applies their gates.  If the
    length is dynamic, that is done for blocks of iterations.  If the body is itself such a loop,
    both loops become one.
    """

    def for_loop(
        self, n_iterations: Any, body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Run a loop whose body applies gates; return the carried values.

        The parameters of the gates in a loop of static length are stacked, so that their
        order is that of execution.

        Args:
            n_iterations: how many iterations there are, an integer where that is known.
            body: takes the carried values and the number of the iteration; returns the
                next carried values.
            carried: the first carried values.
        """
        if isinstance(n_iterations, int):
            return self._static_loop(n_iterations, body, carried)
        gates: list[RepeatedRun] = []
        carried, step, _ = self._traced_step(
            "for_loop",
            body,
            carried,
            jnp.asarray(0),
            is_dynamic_count=True,
            gates_apart=self._apart_if_dynamic_count(gates),
        )
        if not gates:
            state = jax.lax.fori_loop(
                0, n_iterations, lambda i, state: step(state, i)[0], self._circuit_state(carried)
            )
            return self._resume(state)
        computed, (use, state) = self._classical_body(step), self._in_blocks(gates[-1])
        carried, state = use_iterations(computed, carried, n_iterations, use, state)
        return self._resume((carried, *state))

    def _static_loop(
        self, n_iterations: int, body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Run a loop of static length, as ``for_loop`` does."""
        self.flush_active("for_loop")
        # Gates that wait may be joined by those of the loop.
        before, self._run = self._run, None
        was_one_run = self._is_one_run
        gates: list[RepeatedRun] = []
        try:
            carried, step, frequencies = self._traced_step(
                "for_loop",
                body,
                carried,
                jnp.asarray(0),
                gates_apart=gates if 1 < n_iterations <= _MOST_IN_ONE_CALL else None,
                max_iterations=_MOST_IN_ONE_CALL // max(n_iterations, 1),
            )
        finally:
            self._run = before
        if not gates:
            state, stacked = jax.lax.scan(
                step, self._circuit_state(carried), jnp.arange(n_iterations)
            )
            self._params.append(jnp.ravel(stacked))
            self._frequencies.append(np.tile(frequencies, n_iterations))
            return self._resume(state)
        computed, first = self._classical_body(step), carried
        carried, (params, wires) = stack_iterations(computed, carried, n_iterations)
        repeated = gates[-1]
        total = n_iterations * repeated.n_iterations
        if not self.device.passes:
            wires_of = lambda number: computed(first, number)[1][1]
            every = RepeatedRun(repeated.run, jnp.ravel(params), jnp.ravel(wires), total)
            straight = unrolled(every, wires_of, n_iterations, self.device.qubits)
            self._is_one_run = was_one_run and (straight is not None or before is None)
            if straight is None:
                self._wait(every)
            else:
                self._bind(straight)
            return tuple(carried)
        # At the ends of an inner loop's iterations nothing merged, or it would be more than one
        # run; at the ends of this loop's iterations are the same gates.
        loop = merge_iterations(
            repeated.run, params, self.device.passes if repeated.n_iterations == 1 else ()
        )
        for run in loop.before:
            self._bind(run)
        if loop.run.gates:
            self._wait(RepeatedRun(loop.run, jnp.ravel(loop.params), jnp.ravel(wires), total))
        for run in loop.after:
            self._bind(run)
        self._is_one_run = was_one_run and before is None and not (loop.before or loop.after)
        return tuple(carried)

    def while_loop(
        self,
        condition: Callable[..., Any],
        body: Callable[..., Any],
        carried: tuple[Any, ...],
    ) -> tuple[Any, ...]:
        """Run a loop whose body applies gates while a condition on the carried values holds."""

        def goes_on(carried: tuple[Any, ...]) -> Any:
            return self.evaluate_condition(condition, carried)

        gates: list[RepeatedRun] = []
        carried, step, _ = self._traced_step(
            "while_loop",
            body,
            carried,
            is_dynamic_count=True,
            gates_apart=self._apart_if_dynamic_count(gates),
        )
        if not gates:
            state = jax.lax.while_loop(
                lambda state: goes_on(state[0]),
                lambda state: step(state)[0],
                self._circuit_state(carried),
            )
            return self._resume(state)
        computed, (use, state) = self._classical_body(step), self._in_blocks(gates[-1])
        carried, state = use_iterations_while(goes_on, computed, carried, use, state)
        return self._resume((carried, *state))

    def _apart_if_dynamic_count(self, gates: list[RepeatedRun]) -> list[RepeatedRun] | None:
        """Return ``gates`` where blocks of iterations may be one call of the runtime.

        They may not in circuits with passes: ``merge-loop-boundaries`` needs to see the loop.
        """
        return None if self.device.passes else gates

    def _classical_body(self, step: Step) -> Callable[..., tuple[tuple[Any, ...], Any]]:
        """Return the classical part of a body that is only a run of gates.

        Returns:
            a function of the carried values, and the number of the iteration where it has one;
            it returns the next carried values, and the parameters and wires of the run.
        """
        # The state is none of its business, and gates that wait for it go on waiting.
        others = self._state, self._offset, self._dynamic_count

        def computed(carried: tuple[Any, ...], *iteration: Any) -> tuple[tuple[Any, ...], Any]:
            (carried, *_), inputs = step((carried, *others), *iteration)
            return carried, inputs

        return computed

    def _in_blocks(self, repeated: RepeatedRun) -> tuple[Use, Any]:
        """Return a function that applies the gates of each iteration of a block, and its state."""
        _, *state = self._circuit_state(())

        def apply(state: Any, inputs: Any, n_iterations: Any) -> Any:
            params, wires = map(jnp.ravel, inputs)
            with self._part(*state, is_dynamic_count=True):
                self._apply(repeated.run, params, wires, n_iterations * repeated.n_iterations)
                _, *state = self._circuit_state(())
            return state

        return apply, state

    def _circuit_state(self, carried: tuple[Any, ...]) -> Any:
        return carried, self._handle, self._offset, self._dynamic_count

    def _resume(self, state: Any) -> tuple[Any, ...]:
        carried, self._handle, self._offset, self._dynamic_count = state
        return tuple(carried)

    def _traced_step(
        self,
        construct: str,
        body: Callable[..., Any],
        carried: tuple[Any, ...],
        *others: Any,
        is_dynamic_count: bool = False,
        gates_apart: list[RepeatedRun] | None = None,
        max_iterations: float = math.inf,
    ) -> tuple[tuple[Any, ...], Step, np.ndarray]:
        """Trace an iteration with gates.

        Returns:
            the carried values in their types, a function that goes from state to state, and
            the frequencies of the parameters of an iteration.  Where the iteration is a run of
            gates, of ``max_iterations`` at most, and ``gates_apart`` is a list, that run is left
            there, and the function returns its parameters and wires instead of applying it.
        """
        self.flush_active(construct)
        frequencies = np.zeros(0, np.uint8)
        counts = self._dynamic_count is not None

        def recorded(carried: tuple[Any, ...], state: Any, *others: Any) -> Any:
            nonlocal frequencies, counts
            with self._part(*state, is_dynamic_count=is_dynamic_count):
                self._is_one_run = True
                with self.part():
                    carried = body(carried, *others)
                if gates_apart is not None:
                    gates_apart.clear()
                    only = self._only_run()
                    if only is not None and only.n_iterations <= max_iterations:
                        gates_apart.append(only)
                        return carried, (state, (only.params, only.wires))
                handle = self._handle
                frequencies = self._frequencies_vector()
                params = self._params_vector()
                counts = self._dynamic_count is not None
                return carried, ((handle, self._offset, self._dynamic_count), params)

        if is_dynamic_count:
            self._begin_dynamic_count()
        first = carried
        while True:
            _, *state = self._circuit_state(first)
            # A function of its own each time: JAX keeps what it traced of one.
            again = lambda *args: recorded(*args)
            carried, run = traced_step(construct, again, first, tuple(state), *others)
            if gates_apart and run.has_effects:
                # A side effect must come after the gates of the iterations before it.
                gates_apart.clear()
                gates_apart = None
                continue
            if not counts or self._dynamic_count is not None:
                break
            # The body has a loop of dynamic length: trace again, with the proxy carried.
            self._begin_dynamic_count()

        def step(state: Any, *others: Any) -> tuple[Any, Any]:
            carried, *rest = state
            carried, (rest, params) = run(carried, tuple(rest), *others)
            return (carried, *rest), params

        return carried, step, frequencies

    def _only_run(self) -> RepeatedRun | None:
        """Return what was traced as one run of gates, repeated or not; None where it is more."""
        run = self._run
        if run is None or not self._is_one_run:
            return None
        if isinstance(run, RepeatedRun):
            return run
        return RepeatedRun.once(merged(run, self.device.passes, is_last_sight=True))

    def _begin_dynamic_count(self) -> None:
        if self._dynamic_count is None:
            self._dynamic_count = DynamicCount.first()

    def branch(self, branches: Branches) -> Any:
        """Run one branch of a conditional, which may apply gates; return its result.

        The parameter vectors of all branches are padded to the longest, so that the offset of the
        next gate's parameters is static; the padding has derivative zero.
        """
        self.flush_active(branches.construct)
        frequencies: list[np.ndarray] = []
        counts = self._dynamic_count is not None

        def recorded(branch: Callable[[], Any]) -> Step:
            def run(handle: Any, dynamic_count: DynamicCount | None) -> tuple[Any, Any]:
                nonlocal counts
                with self._part(handle, self._offset, dynamic_count):
                    with self.part():
                        result = branch()
                    handle = self._handle
                    frequencies.append(self._frequencies_vector())
                    counts |= self._dynamic_count is not None
                    return result, (handle, self._dynamic_count, self._params_vector())

            return run

        while True:
            frequencies.clear()
            runners, rest = traced_branches(
                branches.changed(recorded), self._handle, self._dynamic_count
            )
            if not counts or self._dynamic_count is not None:
                break
            # A branch has a loop of dynamic length: trace again, with the proxy as an argument.
            self._begin_dynamic_count()
        n_params = max(params.shape[0] for *_, params in rest)

        def padded(runner: Step) -> Step:
            def run(handle: Any, dynamic_count: DynamicCount | None) -> tuple[Any, Any]:
                result, (handle, dynamic_count, params) = runner(handle, dynamic_count)
                params = jnp.pad(params, (0, n_params - params.shape[0]))
                return result, (handle, dynamic_count, params)

            return run

        result, (self._handle, self._dynamic_count, params) = jax.lax.switch(
            branches.index,
            [padded(runner) for runner in runners],
            self._handle,
            self._dynamic_count,
        )
        self._params.append(params)
        # A slot holds a parameter of either branch, so its shift rule must hold for both.
        shared = np.zeros(n_params, np.uint8)
        for of_branch in frequencies:
            shared[: len(of_branch)] |= of_branch
        self._frequencies.append(shared)
        self._offset = self._offset + jnp.int32(n_params)
        return result
