"""The gates of a circuit while its quantum function is traced: they become JAX equations.

The quantum function ::

    qml.RX(2 * x, 0)
    qml.RY(0.5, 0)
    return qml.expval(qml.Z(0))

is traced to ::

    { lambda ; state:u32[2] x:f64[]. let
        angle = mul 2.0 x
        state = quantum_gates[gates=(RX, RY(0.5))] state [angle] 0 []
        state value = quantum_measure[measuring=(Expval(Z),)] state [] [] [angle]
      in (state, value) }

``state`` is a handle, by which the runtime finds the state.  ``quantum_gates`` takes it, the
traced parameters of these gates, their offset in the vector of all parameters of the circuit, and
the traced wires (none here).  Constant parameters are part of the gates.  ``quantum_measure`` takes
coefficients and matrices of observables, and the values with respect to which it can be
differentiated: the vector of all parameters, and the amplitudes of a ``StatePrep`` (left out).

One ``quantum_gates`` equation contains as many gates as possible.  Therefore the last sequence of
gates is pending until a different operation follows: ``qml.RX(x, 0)`` and a following ``for_loop``
with static wires are one equation.
"""

import functools
import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from bellhop.base.types import Handle, Operand
from bellhop.circuits.backends.compiled.differentiable.compiled_state import CompiledState
from bellhop.circuits.backends.compiled.differentiable.dynamic_count import DynamicParams
from bellhop.circuits.backends.compiled.record.gate_sequence import (
    DerivativeKind,
    GateSequence,
    RepeatedSequence,
    as_numbers,
)
from bellhop.circuits.backends.compiled.record.loop_precompute import BlockConsumer
from bellhop.circuits.backends.compiled.record.merging import merge_gates
from bellhop.circuits.gates.nonunitary import may_change_norm
from bellhop.circuits.gates.shift_rules import FrequencyBits
from bellhop.circuits.ir.precision import Precision
from bellhop.passes import MERGE_LOOP_BOUNDARIES


class GateState(NamedTuple):
    """The values that gates change, which loops and conditionals carry.

    Gate parameters in loops with a dynamic trip count are *dynamic-count*, all other parameters
    *static-count*.

    Attributes:
        handle: uint32 ``[2]``, the handle of the quantum state.
        offset: int32 scalar, the index of the next gate parameter in the vector of all static-count
            parameters.
        dynamic_params: the dynamic-count parameters so far; None in a loop or conditional of a
            circuit that has none.
    """

    handle: Any
    offset: Any
    dynamic_params: Any

    def ensure_dynamic_params(self, dynamic_params: DynamicParams) -> "GateState":
        """Return this state, with the given `dynamic_params` if its own are None.

        ``dynamic_params`` represents the gate parameters in loops with a dynamic trip count.
        """
        return self._replace(dynamic_params=self.dynamic_params or dynamic_params)


class GateEquationRecorder:
    """Records the gates of a circuit as equations while it is traced.

    The last gate sequence is *pending*, without an equation yet, so that gates that follow can join
    it. A `RuntimeCircuit` owns one recorder; loops and branches are traced with it too. Gate
    parameters in loops with a dynamic trip count are *dynamic-count*, all other parameters
    *static-count*.

    Args:
        handle: the handle of a fresh state.
        passes: names of the compiler passes that merge gates.
        keeps_matrices: whether the device applies matrices without decomposition.

    Attributes:
        passes: names of the compiler passes that merge gates.
        session_handle: a handle of the circuit, by which the runtime finds the circuit's data.
        amplitudes: the traced amplitudes of a state preparation as real numbers; else empty.
        amplitude_bits: for each of these numbers, the bits of its shift-rule frequencies.
        has_dynamic_count: whether the circuit has a loop with a dynamic trip count.
        is_dynamic_count: whether the body of such a loop is being traced.
        dynamic_frequencies: the union of the shift-rule frequencies of dynamic-count parameters.
        may_change_norm: whether a matrix may be non-unitary.
        is_fresh: whether no operation was applied to the state yet.
        pending: the sequence without an equation; None if there is none.
    """

    def __init__(self, handle: Handle, passes: tuple[str, ...], *, keeps_matrices: bool) -> None:
        self.passes = passes
        self.session_handle = handle
        self._keeps_matrices = keeps_matrices
        self._state = self._start_state = GateState(
            handle, jnp.int32(0), DynamicParams.make_empty()
        )
        self._params: list[Any] = []
        self._frequencies: list[np.ndarray] = []
        self.amplitudes: Any = jnp.zeros(0, Precision.real_type())
        self.amplitude_bits = b""
        # Without dynamic-count parameters, loops and conditionals do not carry their count.
        self.has_dynamic_count = False
        self.is_dynamic_count = False
        self.dynamic_frequencies = FrequencyBits.NONE
        self.may_change_norm = False
        self.is_fresh = True
        self.pending: GateSequence | RepeatedSequence | None = None

    @property
    def perturbation(self) -> Any:
        """A real scalar zero in place of all gate parameters in loops with a dynamic trip count.

        In a JVP, its tangent is a number by which the runtime finds the tangents of these
        parameters. None if the circuit has no such loop.
        """
        return self.dynamic_params.perturbation if self.has_dynamic_count else None

    @property
    def dynamic_params(self) -> DynamicParams:
        """The gate parameters in loops with a dynamic trip count, as recorded so far."""
        return self._state.dynamic_params

    @property
    def should_merge_boundaries(self) -> bool:
        """Whether the last gate of an iteration is merged with the first of the next iteration."""
        return MERGE_LOOP_BOUNDARIES in self.passes

    def add_sequence(self, sequence: GateSequence) -> None:
        """Append gates to the pending sequence, or make them the new pending sequence.

        The pending sequence, which has no equation yet, is bound as an equation if the gates cannot
        join it: because they are differentiated in another way, or because it is the repeated
        sequence of a loop. An empty sequence changes nothing.
        """
        if not sequence.gates:
            return
        if (
            isinstance(self.pending, GateSequence)
            and self.pending.derivative is sequence.derivative
        ):
            self.pending.extend(sequence)
        else:
            self.set_pending(sequence)

    def set_pending(self, sequence: GateSequence | RepeatedSequence) -> None:
        """Bind the pending sequence as an equation, and make ``sequence`` pending.

        A pending sequence has no equation yet, so that later gates can join it.
        """
        self.is_fresh = False
        self._bind_pending_sequence()
        self.pending = sequence

    @contextmanager
    def hide_pending(self) -> Iterator[None]:
        """Hide the pending gates while a loop's body is traced in the ``with`` block.

        Pending gates have no equation yet. They are pending again after the block, so that gates of
        an unrolled loop can join them.
        """
        before, self.pending = self.pending, None
        try:
            yield
        finally:
            self.pending = before

    def get_only_sequence(self) -> RepeatedSequence | None:
        """Return the gates of the traced loop body, if all of them are one pending sequence.

        A pending sequence has no equation yet. It stays pending.

        Returns:
            the sequence, with merged gates or repeated by an inner loop; None if the body has no
            gates, or has bound an equation already.
        """
        run = self.pending
        if run is None or self._state is not self._start_state:
            return None
        return (
            run
            if isinstance(run, RepeatedSequence)
            else RepeatedSequence.from_sequence(merge_gates(run, self.passes))
        )

    def bind_and_get_state(self) -> CompiledState:
        """Bind the gates that have no equation yet, and return the state after them."""
        return CompiledState(self.bind_pending_gates().handle)

    def bind_pending_gates(self) -> GateState:
        """Bind the gates that have no equation yet, and return the state after them.

        The state has the handle, the offset of the next parameter, and the parameters in loops with
        a dynamic trip count.
        """
        self._bind_pending_sequence()
        return self._state

    def bind_and_get_carry(self) -> GateState:
        """Bind the gates that have no equation yet; return the values that a loop carries.

        Conditionals carry them, too. They are the result of `bind_pending_gates`, but
        ``dynamic_params`` is None if the circuit has no loop with a dynamic trip count so far.
        """
        now = self.bind_pending_gates()
        return now if self.has_dynamic_count else now._replace(dynamic_params=None)

    def get_unbound_carry(self) -> GateState:
        """Return the state before the pending gates, for loop iterations that do not read it.

        Unlike `bind_and_get_carry`, this does not bind the pending gates as an equation.
        ``dynamic_params`` is None.
        """
        return self._state._replace(dynamic_params=None)

    def resume(self, state: GateState) -> None:
        """Set the current state to the state after a loop or conditional.

        If its ``dynamic_params`` is None, the recorder keeps its own.
        """
        self._state = state.ensure_dynamic_params(self.dynamic_params)

    def replace_handle(self, handle: Handle, dynamic_params: DynamicParams | None = None) -> None:
        """Set the handle of the current state, after an operation that is not a gate.

        Args:
            handle: the handle of the state, for instance after a measurement.
            dynamic_params: the gate parameters in loops with a dynamic trip count, after the
                operation; None if they are unchanged.
        """
        self._state = self._state._replace(
            handle=handle, dynamic_params=dynamic_params or self.dynamic_params
        )

    def append_params(self, params: Any, frequencies: np.ndarray) -> None:
        """Append the parameters of gates to the vector by which the circuit is differentiated.

        Only for gates outside of loops with a dynamic trip count, when their equation has been
        bound.

        Args:
            params: real array ``[n]``.
            frequencies: uint8 ``[n]``, the bits of each parameter's shift-rule frequencies
                (`FrequencyBits`).
        """
        self._params.append(params)
        self._frequencies.append(frequencies)

    def stack_params(self) -> Any:
        """Return the vector of all parameters that `append_params` appended so far."""
        return jnp.concatenate([jnp.zeros(0, Precision.real_type()), *self._params])

    def stack_frequencies(self) -> np.ndarray:
        """Return the frequency bits of all parameters of `stack_params`, uint8 ``[n]``.

        The bits are the parameter's shift-rule frequencies (`FrequencyBits`).
        """
        return np.concatenate([np.zeros(0, np.uint8), *self._frequencies])

    @contextmanager
    def trace_part(self, state: GateState, *, is_dynamic_count: bool = False) -> Iterator[None]:
        """Record a loop's body or a branch in the ``with`` block, separately from the circuit.

        After the block, this recorder has its earlier state and parameters again. Gates that have
        no equation at the end of the block are dropped, so read or bind them before; ``is_fresh``
        stays False.

        Args:
            state: the state at the beginning of the body: inputs of its jaxpr.
            is_dynamic_count: whether the block is the body of a loop with a dynamic trip count,
                whose gate parameters are recorded separately.
        """
        outer = (
            self._state,
            self._start_state,
            self._params,
            self._frequencies,
            self.is_dynamic_count,
        )
        assert self.pending is None
        self._state = self._start_state = state
        self._params, self._frequencies = [], []
        self.is_dynamic_count |= is_dynamic_count
        # A state preparation in this part is not the first operation of the circuit.
        self.is_fresh = False
        try:
            yield
        finally:
            self.pending = None
            (
                self._state,
                self._start_state,
                self._params,
                self._frequencies,
                self.is_dynamic_count,
            ) = outer

    def make_block_consumer(self, repeated: RepeatedSequence) -> tuple[BlockConsumer, Any]:
        """Return a function that applies the gates of a block of loop iterations.

        A block is up to 64 iterations, whose parameters and wires are computed before their gates
        are applied. The gates before the loop that have no equation yet are bound now.

        Args:
            repeated: the gates of one iteration, without traced values.

        Returns:
            the function, which ``consume_iterations`` calls for each block, and the state before
            the first block.
        """

        def apply(state: GateState, inputs: Any, n_iterations: int | Operand) -> Any:
            """Apply the gates of a block of iterations, and return the state after it.

            Args:
                state: the state before the block.
                inputs: a pair: the parameters and the traced wires of all iterations of the block,
                    each with a leading axis of iterations. The last block may have padding at its
                    end.
                n_iterations: the number of iterations in the block, without padding.
            """
            params, wires = map(jnp.ravel, inputs)
            with self.trace_part(state, is_dynamic_count=True):
                self.bind_sequence(
                    repeated.sequence, params, wires, n_iterations * repeated.n_iterations
                )
                return self.bind_and_get_carry()

        return apply, self.bind_and_get_carry()

    def _bind_pending_sequence(self) -> None:
        """Bind the pending sequence, if there is one, as an equation.

        The circuit's passes merge its gates before that, unless it is the repeated sequence of a
        loop.
        """
        run, self.pending = self.pending, None
        if run is None:
            return
        if isinstance(run, RepeatedSequence):
            self.bind_sequence(run.sequence, run.params, run.wires, run.n_iterations)
            return
        run = merge_gates(run, self.passes)
        if run.gates:
            self.bind_sequence(run, run.stack_params(), run.stack_wires())

    def bind_sequence(
        self,
        sequence: GateSequence,
        params: Any,
        wires: Any,
        n_iterations: int | Operand | None = None,
    ) -> None:
        """Bind a gate sequence as one equation, and register its parameters.

        Parameters that have a derivative are appended to the circuit's vector of parameters, or to
        `dynamic_params` in the body of a loop with a dynamic trip count. Amplitudes of a prepared
        state become the circuit's ``amplitudes``. The pending gates are not bound.

        Args:
            sequence: the gates.
            params: the gates' traced parameters, of all iterations if they are in a loop.
            wires: the gates' traced wires, of all iterations if they are in a loop.
            n_iterations: the number of times that the gates are applied, with the iterations of an
                inner loop; None for once, outside of a loop.
        """
        obstacle = _find_obstacle(sequence)
        self.may_change_norm |= may_change_norm(sequence.gates, if_traced=self._keeps_matrices)
        is_prepared = sequence.derivative is DerivativeKind.BY_AMPLITUDES
        if is_prepared:
            self.amplitudes, self.amplitude_bits = as_numbers(params), bytes(sequence.frequencies)
        has_static_count = not obstacle and not is_prepared
        offset = self.dynamic_params.next_index if self.is_dynamic_count else self._state.offset
        state = CompiledState(self._state.handle).apply_gates(
            sequence.gates,
            params,
            offset if has_static_count else None,
            wires,
            n_iterations=n_iterations,
            obstacle=obstacle,
            is_preparation=is_prepared,
        )
        self._state = self._state._replace(handle=state.handle)
        if not sequence.n_params or not has_static_count:
            return
        n = sequence.n_params if n_iterations is None else n_iterations * sequence.n_params
        if self.is_dynamic_count:
            self._state = self._state._replace(
                dynamic_params=self.dynamic_params.add_params(self.session_handle, params, n)
            )
            self.dynamic_frequencies |= functools.reduce(operator.or_, sequence.frequencies)
            return
        self._state = self._state._replace(offset=self._state.offset + jnp.int32(n))
        frequencies = np.asarray(sequence.frequencies, np.uint8)
        self.append_params(
            params, np.tile(frequencies, 1 if n_iterations is None else n_iterations)
        )


def _find_obstacle(sequence: GateSequence) -> str:
    """Return the error message if a sequence's parameters have no derivative; else ""."""
    if sequence.derivative is not DerivativeKind.NONE:
        return ""
    names = ", ".join(dict.fromkeys(gate.name for gate in sequence.gates if gate.slots))
    return (
        f"the parameters of {names} are differentiated, which neither the adjoint method nor "
        "parameter shifts support. Use gates with angles or diff_method='finite-diff', or "
        "differentiate with respect to other arguments."
    )
