"""Parts of a circuit as traced: an iteration of a loop, and the branches of a conditional."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.base.types import Handle
from bellhop.circuits.backends.compiled.differentiable.dynamic_count import DynamicParams
from bellhop.circuits.backends.compiled.record.gate_sequence import RepeatedSequence
from bellhop.circuits.backends.compiled.record.loop_boundaries import LoopEnds, merge_loop_ends
from bellhop.circuits.backends.compiled.record.recorded_gates import GateEquationRecorder, GateState
from bellhop.control_flow.trace_body import Step, trace_branches, trace_step
from bellhop.tracing.current_circuit import Branches

# A loop of more iterations is not one call, which would hold the parameters of all its gates.
_MAX_ITERATIONS_PER_CALL = 1 << 18


class TracedLoop(NamedTuple):
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
    gates: RepeatedSequence | None
    ends: LoopEnds

    @classmethod
    def trace(
        cls,
        gates: GateEquationRecorder,
        construct: str,
        body: Callable[..., Any],
        carried: tuple[Any, ...],
        *others: Any,
        n_iterations: int | None = None,
    ) -> "TracedLoop":
        """Trace one iteration of a loop.

        Args:
            gates: those of the circuit.
            construct: what the user called, for errors.
            body: the body; it takes the carried values and ``others``, and applies gates.
            carried: the carried values of the first iteration.
            others: the number of the iteration, in a ``for_loop``.
            n_iterations: how many there are; None where the program computes that.
        """
        is_dynamic_count = n_iterations is None
        most_apart = _count_max_separable(gates, n_iterations)
        frequencies = np.zeros(0, np.uint8)
        apart: RepeatedSequence | None = None

        def flush_iteration(carried: tuple[Any, ...]) -> Any:
            """Return what an iteration returns that has applied its gates."""
            nonlocal frequencies
            state = gates.flush()
            frequencies = gates.stack_frequencies()
            return carried, (state, gates.stack_params())

        def record_iteration(carried: tuple[Any, ...], state: GateState, *others: Any) -> Any:
            nonlocal apart
            apart = None
            with gates.trace_part(state, is_dynamic_count=is_dynamic_count):
                carried = body(carried, *others)
                only = gates.get_only_sequence() if most_apart else None
                if only is None or only.n_iterations > most_apart:
                    return flush_iteration(carried)
                apart = only.drop_values()
                return carried, (state, (only.params, only.wires))

        gates.has_dynamic_count |= is_dynamic_count
        state, first = gates.flush(), carried
        carried, run = trace_step(construct, record_iteration, first, state, *others)
        if apart is not None and run.has_effects:
            # An iteration's side effect comes after the gates of the iterations before it, so
            # its gates cannot come later.
            classical, repeated, apart = run, apart, None

            def record_with_effects(
                carried: tuple[Any, ...], state: GateState, *others: Any
            ) -> Any:
                carried, (_, (params, wires)) = classical(carried, state, *others)
                with gates.trace_part(state, is_dynamic_count=is_dynamic_count):
                    n = repeated.n_iterations
                    gates.bind_sequence(repeated.sequence, params, wires, n if n > 1 else None)
                    return flush_iteration(carried)

            carried, run = trace_step(construct, record_with_effects, first, state, *others)
        ends = LoopEnds()
        if apart is None and gates.should_merge_boundaries:
            run, ends = merge_loop_ends(run, place=len(jax.tree.leaves(carried)))

        def step(now: tuple[Any, GateState], *others: Any) -> tuple[Any, Any]:
            carried, state = now
            carried, (after, params) = run(
                carried, state.ensure_dynamic_params(gates.dynamic_params), *others
            )
            return (
                carried,
                after._replace(dynamic_params=state.dynamic_params and after.dynamic_params),
            ), params

        return cls(carried, step, frequencies, apart, ends)

    def make_classical_body(self, state: GateState) -> Callable[..., tuple[tuple[Any, ...], Any]]:
        """Return the classical part of the body of a loop that only applies gates.

        Args:
            state: of the circuit, which is handed on and not read.

        Returns:
            a function of the carried values and, in a ``for_loop``, of the number of the iteration.
            It returns the next carried values, and the parameters and wires of the gates.
        """

        def computed(carried: tuple[Any, ...], *iteration: Any) -> tuple[tuple[Any, ...], Any]:
            (carried, _), inputs = self.step((carried, state), *iteration)
            return carried, inputs

        return computed


def _count_max_separable(gates: GateEquationRecorder, n_iterations: int | None) -> float:
    """Return the most iterations of a loop in a body whose gates may be separated from the rest.

    One call of the runtime applies the gates of a loop then, or of a block of its iterations: not
    where boundaries merge, as the length of the last block is computed.
    """
    if n_iterations is None:
        return 0 if gates.should_merge_boundaries else math.inf
    return _MAX_ITERATIONS_PER_CALL // n_iterations if n_iterations > 1 else 0


def record_branches(gates: GateEquationRecorder, branches: Branches) -> Any:
    """Run one branch of a conditional, which may apply gates; return its result.

    The parameter vectors of the branches are padded to the length of the longest, so that the
    gates after the conditional have a static offset.  The derivative by the padding is zero.
    """
    frequencies: list[np.ndarray] = []
    before = gates.flush()

    def record_branch(branch: Callable[[], Any]) -> Step:
        def run(handle: Handle, count: DynamicParams) -> tuple[Any, Any]:
            with gates.trace_part(before._replace(handle=handle, dynamic_params=count)):
                result = branch()
                after = gates.flush()
                frequencies.append(gates.stack_frequencies())
                return result, (after.handle, after.dynamic_params, gates.stack_params())

        return run

    runners, rest = trace_branches(
        branches.map_functions(record_branch), before.handle, before.dynamic_params
    )
    n_params = max(params.shape[0] for *_, params in rest)

    def pad_params(runner: Step) -> Step:
        def run(handle: Handle, count: DynamicParams | None) -> tuple[Any, Any]:
            result, (handle, after, params) = runner(handle, count or gates.dynamic_params)
            params = jnp.pad(params, (0, n_params - params.shape[0]))
            return result, (handle, count and after, params)

        return run

    # Only now it is known whether anything counts.
    count = gates.flush_carry().dynamic_params
    result, (handle, count, params) = jax.lax.switch(
        branches.index, list(map(pad_params, runners)), before.handle, count
    )
    gates.resume(GateState(handle, before.offset + jnp.int32(n_params), count))
    # An element of the vector is a parameter of whichever branch runs, so its shift rule must
    # be right for each.
    shared = np.zeros(n_params, np.uint8)
    for of_branch in frequencies:
        shared[: len(of_branch)] |= of_branch
    gates.append_params(params, shared)
    return result
