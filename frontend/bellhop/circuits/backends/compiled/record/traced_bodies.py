"""Trace bodies of loops and branches of conditionals in a circuit."""

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

# The most iterations whose gates one call applies, since it holds the parameters of all gates.
_MAX_ITERATIONS_PER_CALL = 1 << 18


class TracedLoop(NamedTuple):
    """A loop of the circuit, of which one iteration was traced.

    The gates of the body are *separated* if the classical computation of all iterations can run
    before the gates: then one call of the runtime applies the gates of many iterations.

    Attributes:
        carried: the initial carried values, in the types that they have in every iteration.
        step: runs an iteration: ``((carried, state), *index) -> ((carried, state), params)``. The
            index is passed in a ``for_loop`` only. ``state`` is a `GateState`, and ``params`` are
            the traced gate parameters. If the gates are separated, ``step`` leaves the state
            unchanged, and ``params`` is a pair of the parameters and the wires of the gates.
        frequencies: uint8 ``[params]``, for each parameter a bit mask of the frequencies in its
            shift rule; without meaning if the gates are separated.
        gates: the gates of the body if they are separated, else None.
        ends: the gates to apply before and after the loop, which were merged across its iterations.
    """

    carried: tuple[Any, ...]
    step: Step
    frequencies: np.ndarray
    gates: RepeatedSequence | None
    ends: LoopEnds

    @classmethod
    def trace(
        cls,
        recorder: GateEquationRecorder,
        construct: str,
        body: Callable[..., Any],
        carried: tuple[Any, ...],
        *others: Any,
        n_iterations: int | None = None,
    ) -> "TracedLoop":
        """Trace one iteration of a loop.

        Args:
            recorder: the recorder of the circuit's gates. Pending gates are bound, and
                ``has_dynamic_count`` is set for a dynamic trip count.
            construct: the name of the user's loop function, for errors.
            body: ``(carried, *others) -> carried``, which applies gates.
            carried: the carried values of the first iteration.
            others: the index of the iteration in a ``for_loop``, nothing in a ``while_loop``.
            n_iterations: the trip count; None if it is dynamic.

        Returns:
            the loop; its iterations are not applied yet.
        """
        is_dynamic_count = n_iterations is None
        most_apart = _count_max_separable(recorder, n_iterations)
        frequencies = np.zeros(0, np.uint8)
        apart: RepeatedSequence | None = None

        def flush_iteration(carried: tuple[Any, ...]) -> Any:
            """Bind the remaining gates at the end of an iteration that applies its gates.

            It also stores the shift-rule frequencies of their parameters in ``frequencies``.

            Returns:
                ``carried``, and a pair: the circuit's state after the gates, and their parameters.
            """
            nonlocal frequencies
            state = recorder.bind_pending_gates()
            frequencies = recorder.stack_frequencies()
            return carried, (state, recorder.stack_params())

        def record_iteration(carried: tuple[Any, ...], state: GateState, *others: Any) -> Any:
            """Run the body; apply its gates, unless they are one sequence that can be separated.

            Separated gates are applied later, for many iterations at once.

            Args:
                carried: the carried values before the iteration.
                state: the circuit's state before the iteration.
                others: the index of the iteration in a ``for_loop``.

            Returns:
                the carried values, and a pair: the state, and the parameters of the gates. If the
                gates are separated, the state is unchanged, and their parameters and wires are a
                pair.
            """
            nonlocal apart
            apart = None
            with recorder.trace_part(state, is_dynamic_count=is_dynamic_count):
                carried = body(carried, *others)
                only = recorder.get_only_sequence() if most_apart else None
                if only is None or only.n_iterations > most_apart:
                    return flush_iteration(carried)
                apart = only.drop_values()
                return carried, (state, (only.params, only.wires))

        recorder.has_dynamic_count |= is_dynamic_count
        state, first = recorder.bind_pending_gates(), carried
        carried, run = trace_step(construct, record_iteration, first, state, *others, body=body)
        if apart is not None and run.has_effects:
            # An iteration's side effect comes after the gates of the iterations before it, so
            # its gates cannot come later.
            classical, repeated, apart = run, apart, None

            def record_with_effects(
                carried: tuple[Any, ...], state: GateState, *others: Any
            ) -> Any:
                """Run a body with side effects, and apply its gates at the end of the iteration.

                Args:
                    carried: the carried values before the iteration.
                    state: the circuit's state before the iteration.
                    others: the index of the iteration in a ``for_loop``.

                Returns:
                    the carried values, and a pair: the circuit's state after the gates, and their
                    parameters.
                """
                carried, (_, (params, wires)) = classical(carried, state, *others)
                with recorder.trace_part(state, is_dynamic_count=is_dynamic_count):
                    n = repeated.n_iterations
                    recorder.bind_sequence(repeated.sequence, params, wires, n if n > 1 else None)
                    return flush_iteration(carried)

            carried, run = trace_step(
                construct, record_with_effects, first, state, *others, body=body
            )
        ends = LoopEnds()
        if apart is None and recorder.should_merge_boundaries:
            run, ends = merge_loop_ends(run, handle_index=len(jax.tree.leaves(carried)))

        def step(now: tuple[Any, GateState], *others: Any) -> tuple[Any, Any]:
            """Run an iteration by the traced jaxpr; see `TracedLoop.step`.

            Args:
                now: the carried values and the circuit's state. In the state, ``dynamic_params``
                    (the gate parameters in loops with a dynamic trip count) is None if the loop
                    does not carry it.
                others: the index of the iteration in a ``for_loop``.

            Returns:
                the pair for the next iteration, where ``dynamic_params`` is None if it was None;
                and the parameters of the gates.
            """
            carried, state = now
            carried, (after, params) = run(
                carried, state.ensure_dynamic_params(recorder.dynamic_params), *others
            )
            return (
                carried,
                after._replace(dynamic_params=state.dynamic_params and after.dynamic_params),
            ), params

        return cls(carried, step, frequencies, apart, ends)

    def make_classical_body(self, state: GateState) -> Callable[..., tuple[tuple[Any, ...], Any]]:
        """Return the body's classical computation, for a loop whose gates are applied later.

        Args:
            state: the state of the circuit, which an iteration passes on without reading it.

        Returns:
            a function of the carried values and, in a ``for_loop``, of the index of the iteration.
            It returns the next carried values, and a pair: the parameters and the wires of the
            gates.
        """

        def classical_body(carried: tuple[Any, ...], *index: Any) -> tuple[tuple[Any, ...], Any]:
            """Run an iteration without its gates; see `make_classical_body`."""
            (carried, _), inputs = self.step((carried, state), *index)
            return carried, inputs

        return classical_body


def _count_max_separable(recorder: GateEquationRecorder, n_iterations: int | None) -> float:
    """Return the largest trip count of an inner loop whose gates may be separated.

    Gates are separated from a body's classical computation so that one call of the runtime applies
    the gates of many iterations. The call holds their parameters, so their number is limited.

    Args:
        recorder: the recorder of the circuit's gates, which decides whether iterations are merged.
        n_iterations: the trip count of the outer loop; None if it is dynamic.

    Returns:
        the trip count; infinity without a limit. Zero if gates must not be separated: in a loop of
        one iteration, and in a loop of dynamic trip count whose iterations merge gates at their
        boundaries, as the length of its last block is dynamic.
    """
    if n_iterations is None:
        return 0 if recorder.should_merge_boundaries else math.inf
    return _MAX_ITERATIONS_PER_CALL // n_iterations if n_iterations > 1 else 0


def record_branches(recorder: GateEquationRecorder, branches: Branches) -> Any:
    """Add a conditional whose branches apply gates; return the chosen branch's result.

    The parameter vectors of the branches are padded with zeros to the length of the longest, so
    that the gates after the conditional have a static offset.

    Args:
        recorder: the recorder of the circuit's gates, which continues after the conditional.
        branches: the traced index of the branch to run, and the branches as functions.
    """
    frequencies: list[np.ndarray] = []
    before = recorder.bind_pending_gates()

    def record_branch(branch: Callable[[], Any]) -> Step:
        """Return a function that runs a branch and records its gates."""

        def run(handle: Handle, dynamic_params: DynamicParams) -> tuple[Any, Any]:
            """Run the branch, separately from the circuit, and record its gates.

            The bits of its parameters' shift-rule frequencies are appended to ``frequencies``.

            Args:
                handle: the handle of the state before the conditional.
                dynamic_params: the gate parameters in loops with a dynamic trip count, before the
                    conditional.

            Returns:
                the branch's result; and a triple: the handle after the branch, the parameters in
                dynamic loops, and the vector of all other gate parameters of the branch.
            """
            with recorder.trace_part(before._replace(handle=handle, dynamic_params=dynamic_params)):
                result = branch()
                after = recorder.bind_pending_gates()
                frequencies.append(recorder.stack_frequencies())
                return result, (after.handle, after.dynamic_params, recorder.stack_params())

        return run

    runners, rest = trace_branches(
        branches.map_functions(record_branch), before.handle, before.dynamic_params
    )
    n_params = max(params.shape[0] for *_, params in rest)

    def pad_params(runner: Step) -> Step:
        """Return a traced branch that pads its vector of parameters with zeros."""

        def run(handle: Handle, dynamic_params: DynamicParams | None) -> tuple[Any, Any]:
            """Run the traced branch, and pad its vector of parameters with zeros.

            ``dynamic_params``, the gate parameters in loops with a dynamic trip count, is None if
            the circuit has no such loop so far; it is then None in the result, too.

            Returns:
                the branch's result; and a triple: the handle after the branch, the parameters in
                dynamic loops, and the padded vector of all other gate parameters.
            """
            result, (handle, after, params) = runner(
                handle, dynamic_params or recorder.dynamic_params
            )
            params = jnp.pad(params, (0, n_params - params.shape[0]))
            return result, (handle, dynamic_params and after, params)

        return run

    # Only after tracing the branches it is known whether there are dynamic-count parameters.
    dynamic_params = recorder.bind_and_get_carry().dynamic_params
    result, (handle, dynamic_params, params) = jax.lax.switch(
        branches.index, list(map(pad_params, runners)), before.handle, dynamic_params
    )
    recorder.resume(GateState(handle, before.offset + jnp.int32(n_params), dynamic_params))
    # An element of the vector is a parameter of any branch, so its frequencies are the union.
    shared = np.zeros(n_params, np.uint8)
    for branch_frequencies in frequencies:
        shared[: len(branch_frequencies)] |= branch_frequencies
    recorder.append_params(params, shared)
    return result
