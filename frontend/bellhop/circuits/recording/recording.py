"""A circuit while its quantum function is traced: its loops and conditionals.

A loop whose body only applies gates becomes two equations.  The first computes the angles of all
iterations as one vector, and the second is one call of the runtime, which applies the gates of all
iterations.  ``for_loop(0, 1000)(lambda i: qml.RX(x * i, 0))()`` is traced to ::

    angles = mul x [0. 1. 2. ...]
    state = quantum_gates[RX] state angles 0 [] 1000

(A shorter loop is unrolled, see ``unrolled``.)  A loop whose body does something else too, such as
``bellhop.debug.print("{}", i)``, becomes a ``scan`` that carries the state.  It returns the angles
of all iterations, by which the measurement is differentiated::

    state offset angles = scan[
      jaxpr={ lambda x; state offset i. let
          bellhop_print i
          angle = mul x i
          state = quantum_gates[RX] state [angle] offset []
          offset = add offset 1
        in (state, offset, [angle]) }
      length=1000
    ] x state 0 [0 1 2 ...]

A conditional becomes a ``cond``.  Its branches return vectors of parameters of the same length,
padded with zeros.  ``cond(x > 0, lambda: qml.RX(x, 0), lambda: qml.X(0))()`` is traced to ::

    state angles = cond[
      branches=(
        { lambda x offset state. let s = quantum_gates[RX] state [x] offset [] in (s, [x]) }
        { lambda x offset state. let s = quantum_gates[X] state [] offset [] in (s, [0.0]) }
      )
    ] index x offset state
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.base.types import Handle, Operand
from bellhop.circuits.derivatives.dynamic_count import DynamicCount
from bellhop.circuits.gates.gate_run import GateRun, RepeatedRun
from bellhop.circuits.recording.gate_jaxpr import MOST_GATES
from bellhop.circuits.recording.iterations import (
    numbers_of,
    stack_iterations,
    use_iterations,
    use_iterations_while,
)
from bellhop.circuits.recording.loop_boundaries import (
    Ends,
    MergedLoop,
    merge_ends,
    merge_iterations,
)
from bellhop.circuits.recording.straight_circuit import StraightCircuit
from bellhop.circuits.recording.unrolled import unrolled
from bellhop.control_flow.steps import Branches, Step, traced_branches, traced_step
from bellhop.passes import MERGE_LOOP_BOUNDARIES

# A loop of more iterations is not one call, which would hold the parameters of all its gates.
_MOST_IN_ONE_CALL = 1 << 18


class Circuit(StraightCircuit):
    """A circuit with control flow, which is traced to ``scan``, ``while`` and ``cond``.

    If the body of a loop only applies gates and has no side effects, the program first computes the
    parameters of all iterations, and then calls the runtime once.  If the program computes the
    length of the loop, it does so for a block of iterations at a time.  If the body is itself such
    a loop, the two loops become one call.
    """

    def for_loop(
        self, n_iterations: int | Operand, body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Run a loop whose body applies gates; return the carried values after it."""
        if isinstance(n_iterations, int):
            return self._static_loop(n_iterations, body, carried)
        loop = self._dynamic_loop("for_loop", body, carried, jnp.asarray(0))
        if loop.gates is None:
            iteration = lambda i, state: loop.step(state, i)[0]
            return self._run_loop(
                loop, lambda state: jax.lax.fori_loop(0, n_iterations, iteration, state)
            )
        computed, (use, state) = self._classical_body(loop.step), self._in_blocks(loop.gates)
        after, state = use_iterations(computed, loop.carried, n_iterations, use, state)
        return self._resume((after, *state))

    @property
    def goes_through_nests(self) -> bool:
        """Whether gates of loops of loops may be written one after another: passes see loops."""
        return not self.device.passes

    def apply_straight(self, operations: list[Any]) -> bool:
        """Apply the gates of a loop of loops, if they are few; tell whether."""
        gates = self._runs(operations, MOST_GATES)
        is_straight = gates.is_straight(MOST_GATES)
        for run in gates.runs if is_straight else ():
            assert isinstance(run, GateRun)
            self._pending.add(run)
        return is_straight

    def _static_loop(
        self, n_iterations: int, body: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Run a loop of static length; arguments and results are those of ``for_loop``."""
        was_one_run, before = self._pending.is_one_run, self._pending.run
        # The gates before the loop stay pending, since gates of the loop may join their run.
        with self._pending.held_back():
            loop = self._traced_loop(
                "for_loop",
                body,
                carried,
                jnp.asarray(0),
                takes_gates_apart=1 < n_iterations <= _MOST_IN_ONE_CALL,
                max_iterations=_MOST_IN_ONE_CALL // max(n_iterations, 1),
            )
        repeated = loop.gates
        if repeated is None:

            def scanned(state: Any) -> Any:
                state, stacked = jax.lax.scan(loop.step, state, numbers_of(n_iterations))
                self._params.append(jnp.ravel(stacked))
                self._frequencies.append(np.tile(loop.frequencies, n_iterations))
                return state

            return self._run_loop(loop, scanned)
        computed, first = self._classical_body(loop.step), loop.carried
        carried, (params, wires) = stack_iterations(computed, first, n_iterations)
        total = n_iterations * repeated.n_iterations
        if not self.device.passes:
            wires_of = lambda number: computed(first, number)[1][1]
            every = RepeatedRun(repeated.run, jnp.ravel(params), jnp.ravel(wires), total)
            straight = unrolled(every, wires_of, n_iterations, self.device.qubits)
            self._pending.is_one_run = was_one_run
            if straight is None:
                self._pending.wait(every)
            else:
                self._pending.add(straight)
            return tuple(carried)
        # The body is one run of gates although it is a loop, so no gates merged where one inner
        # iteration meets the next.  The same gates meet between two outer iterations.
        merged = MergedLoop([], repeated.run, params, [])
        if self._merges_boundaries and repeated.n_iterations == 1:
            merged = merge_iterations(repeated.run, params)
        for run in merged.before:
            self._pending.add(run)
        if merged.run.gates:
            self._pending.wait(
                RepeatedRun(merged.run, jnp.ravel(merged.params), jnp.ravel(wires), total)
            )
        for run in merged.after:
            self._pending.add(run)
        self._pending.is_one_run = (
            was_one_run and before is None and not (merged.before or merged.after)
        )
        return tuple(carried)

    def while_loop(
        self,
        condition: Callable[..., Any],
        body: Callable[..., Any],
        carried: tuple[Any, ...],
    ) -> tuple[Any, ...]:
        """Run a loop while a condition holds; return the carried values."""
        loop = self._dynamic_loop("while_loop", body, carried)
        if loop.gates is None:
            return self._run_loop(
                loop,
                lambda state: jax.lax.while_loop(
                    lambda state: condition(state[0]), lambda state: loop.step(state)[0], state
                ),
            )
        computed, (use, state) = self._classical_body(loop.step), self._in_blocks(loop.gates)
        carried, state = use_iterations_while(condition, computed, loop.carried, use, state)
        return self._resume((carried, *state))

    def _dynamic_loop(
        self, construct: str, body: Callable[..., Any], carried: tuple[Any, ...], *others: Any
    ) -> "_TracedLoop":
        """Trace one iteration of a loop whose length the program computes.

        If one call of the runtime may apply the gates of a block of iterations, they are apart:
        not where boundaries merge, as the length of the last block is computed.
        """
        return self._traced_loop(
            construct,
            body,
            carried,
            *others,
            is_dynamic_count=True,
            takes_gates_apart=not self._merges_boundaries,
        )

    def _run_loop(self, loop: "_TracedLoop", run: Callable[[Any], Any]) -> tuple[Any, ...]:
        """Run a traced loop, and what was taken out of its iterations before and after it."""
        self._pending.add(GateRun(gates=loop.ends.before))
        carried = self._resume(run(self._circuit_state(loop.carried)))
        self._pending.add(GateRun(gates=loop.ends.after))
        return carried

    @property
    def _merges_boundaries(self) -> bool:
        return MERGE_LOOP_BOUNDARIES in self.device.passes

    def _classical_body(self, step: Step) -> Callable[..., tuple[tuple[Any, ...], Any]]:
        """Return the classical part of the body of a loop that only applies gates.

        Args:
            step: one iteration, from ``_traced_loop``, which returns parameters and wires instead
                of applying gates.

        Returns:
            a function of the carried values and, in a ``for_loop``, of the number of the iteration.
            It returns the next carried values, and the parameters and wires of the gates.
        """
        # ``step`` hands these on and does not read them.  Reading ``handle`` here would bind the
        # gates that are pending.
        others = self._state, self._offset, None

        def computed(carried: tuple[Any, ...], *iteration: Any) -> tuple[tuple[Any, ...], Any]:
            (carried, *_), inputs = step((carried, *others), *iteration)
            return carried, inputs

        return computed

    def _traced_loop(
        self,
        construct: str,
        body: Callable[..., Any],
        carried: tuple[Any, ...],
        *others: Any,
        is_dynamic_count: bool = False,
        takes_gates_apart: bool = False,
        max_iterations: float = math.inf,
    ) -> "_TracedLoop":
        """Trace one iteration of a loop.

        Args:
            construct: what the user called, for errors.
            body: the body; it takes the carried values and ``others``.
            carried: the carried values of the first iteration.
            others: the number of the iteration, in a ``for_loop``.
            is_dynamic_count: whether the program computes how many iterations there are.
            takes_gates_apart: whether gates may be separated from the classical part of the body.
            max_iterations: the most iterations of a loop in the body for which they may.
        """
        frequencies = np.zeros(0, np.uint8)
        gates: RepeatedRun | None = None

        def applied(carried: tuple[Any, ...]) -> Any:
            """Return what an iteration returns that has applied its gates."""
            nonlocal frequencies
            handle = self.handle
            frequencies = self._frequencies_vector()
            return carried, ((handle, self._offset, self._dynamic_count), self._params_vector())

        def recorded(carried: tuple[Any, ...], state: Any, *others: Any) -> Any:
            nonlocal gates
            gates = None
            with self._part(*state, is_dynamic_count=is_dynamic_count):
                self._pending.is_one_run = True
                with self.allocations.part():
                    carried = body(carried, *others)
                only = self._pending.only_run() if takes_gates_apart else None
                if only is None or only.n_iterations > max_iterations:
                    return applied(carried)
                gates = only.without_values()
                return carried, (state, (only.params, only.wires))

        self._has_dynamic_count |= is_dynamic_count
        state = self.handle, self._offset, self._dynamic_count
        first = carried
        carried, run = traced_step(construct, recorded, first, state, *others)
        if gates is not None and run.has_effects:
            # An iteration's side effect comes after the gates of the iterations before it, so
            # its gates cannot come later.
            apart, repeated, gates = run, gates, None

            def together(carried: tuple[Any, ...], state: Any, *others: Any) -> Any:
                carried, (_, (params, wires)) = apart(carried, state, *others)
                with self._part(*state, is_dynamic_count=is_dynamic_count):
                    n = repeated.n_iterations
                    self._apply(repeated.run, params, wires, n if n > 1 else None)
                    return applied(carried)

            carried, run = traced_step(construct, together, first, state, *others)
        ends = Ends()
        if gates is None and self._merges_boundaries:
            run, ends = merge_ends(run, place=len(jax.tree.leaves(carried)))

        def step(state: Any, *others: Any) -> tuple[Any, Any]:
            carried, handle, offset, count = state
            given = handle, offset, count or self._dynamic_count
            carried, ((handle, offset, after), params) = run(carried, given, *others)
            return (carried, handle, offset, count and after), params

        return _TracedLoop(carried, step, frequencies, gates, ends)

    def branch(self, branches: Branches) -> Any:
        """Run one branch of a conditional, which may apply gates; return its result.

        The parameter vectors of the branches are padded to the length of the longest, so that the
        gates after the conditional have a static offset.  The derivative by the padding is zero.
        """
        frequencies: list[np.ndarray] = []

        def recorded(branch: Callable[[], Any]) -> Step:
            def run(handle: Handle, dynamic_count: DynamicCount) -> tuple[Any, Any]:
                with self._part(handle, self._offset, dynamic_count):
                    with self.allocations.part():
                        result = branch()
                    handle = self.handle
                    frequencies.append(self._frequencies_vector())
                    return result, (handle, self._dynamic_count, self._params_vector())

            return run

        runners, rest = traced_branches(
            branches.changed(recorded), self.handle, self._dynamic_count
        )
        n_params = max(params.shape[0] for *_, params in rest)

        def padded(runner: Step) -> Step:
            def run(handle: Handle, count: DynamicCount | None) -> tuple[Any, Any]:
                result, (handle, after, params) = runner(handle, count or self._dynamic_count)
                params = jnp.pad(params, (0, n_params - params.shape[0]))
                return result, (handle, count and after, params)

            return run

        _, handle, _, count = self._circuit_state(())
        result, (handle, count, params) = jax.lax.switch(
            branches.index, [padded(runner) for runner in runners], handle, count
        )
        self._resume(((), handle, self._offset, count))
        self._params.append(params)
        # An element of the vector is a parameter of whichever branch runs, so its shift rule must
        # be right for each.
        shared = np.zeros(n_params, np.uint8)
        for of_branch in frequencies:
            shared[: len(of_branch)] |= of_branch
        self._frequencies.append(shared)
        self._offset = self._offset + jnp.int32(n_params)
        return result


class _TracedLoop(NamedTuple):
    """A loop of which one iteration is traced.

    Attributes:
        carried: the carried values in the types that they have in every iteration.
        step: runs an iteration, from the carried values and the state of the circuit to the next
            ones and the parameters of its gates.
        frequencies: those of these parameters.
        gates: where the body is one run of gates that may be separated, this run; ``step`` then
            returns its parameters and wires and applies no gates.
        ends: the gates that were taken out of the iterations.
    """

    carried: tuple[Any, ...]
    step: Step
    frequencies: np.ndarray
    gates: RepeatedRun | None
    ends: Ends
