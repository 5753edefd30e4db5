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
parameters of these gates, their offset in the vector of all parameters of the circuit, and the
wires that the program computes (none here).  Parameters that are constants are part of the gates.
``quantum_measure`` takes the coefficients and matrices of observables, and what it is
differentiated by: the vector of all parameters, and the amplitudes of a ``StatePrep`` (left out).

Gates are bound as runs, one ``quantum_gates`` for as many gates as possible.  So the last run is
pending until something else follows: ``qml.RX(x, 0)`` and a ``for_loop`` of known wires after it
are one run.
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
    """What gates change, as loops and conditionals carry it.

    Attributes:
        handle: of the state.
        offset: of the next parameter in the vector of all.
        dynamic_params: the dynamic-count parameters so far; None where nothing counts them.
    """

    handle: Any
    offset: Any
    dynamic_params: Any

    def ensure_dynamic_params(self, count: DynamicParams) -> "GateState":
        """Return it with a count in any case."""
        return self._replace(dynamic_params=self.dynamic_params or count)


class GateEquationRecorder:
    """The gates of a circuit so far: those that are bound, and the run that is pending.

    Args:
        handle: the handle of a fresh state.
        passes: those that merge gates.
        keeps_matrices: whether the device applies matrices as they are.

    Attributes:
        passes: the same.
        session: any handle of the circuit, which identifies its session.
        amplitudes: what the state is prepared from where the program computes it.
        amplitude_bits: those of the frequencies of each.
        has_dynamic_count: whether there are loops whose length the program computes.
        is_dynamic_count: whether this is a part of one.
        dynamic_frequencies: those of all parameters in these.
        may_change_norm: whether a matrix need not be unitary.
        is_fresh: whether nothing was applied to the state.
        pending: the run that is not bound yet.
    """

    def __init__(self, handle: Handle, passes: tuple[str, ...], *, keeps_matrices: bool) -> None:
        self.passes = passes
        self.session = handle
        self._keeps_matrices = keeps_matrices
        self._state = self._start_state = GateState(
            handle, jnp.int32(0), DynamicParams.make_empty()
        )
        self._params: list[Any] = []
        self._frequencies: list[np.ndarray] = []
        self.amplitudes: Any = jnp.zeros(0, Precision.real_type())
        self.amplitude_bits = b""
        # If there are none, no loop and no conditional carries the count.
        self.has_dynamic_count = False
        self.is_dynamic_count = False
        self.dynamic_frequencies = FrequencyBits.NONE
        self.may_change_norm = False
        self.is_fresh = True
        self.pending: GateSequence | RepeatedSequence | None = None

    @property
    def perturbation(self) -> Any:
        """That of dynamic-count parameters; None where there are none."""
        return self.dynamic_params.perturbation if self.has_dynamic_count else None

    @property
    def dynamic_params(self) -> DynamicParams:
        """The dynamic-count parameters so far."""
        return self._state.dynamic_params

    @property
    def should_merge_boundaries(self) -> bool:
        """Whether gates are merged where the iterations of a loop meet."""
        return MERGE_LOOP_BOUNDARIES in self.passes

    def add_sequence(self, sequence: GateSequence) -> None:
        """Let gates join the pending run, or be pending behind it."""
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
        """Bind the pending run of gates, and make this one the pending one."""
        self.is_fresh = False
        self._bind_pending()
        self.pending = sequence

    @contextmanager
    def hide_pending(self) -> Iterator[None]:
        """Keep the pending gates out of what is traced inside."""
        before, self.pending = self.pending, None
        try:
            yield
        finally:
            self.pending = before

    def get_only_sequence(self) -> RepeatedSequence | None:
        """Return what was traced of a part, if that is one run of gates, repeated or not."""
        run = self.pending
        if run is None or self._state is not self._start_state:
            return None
        return (
            run
            if isinstance(run, RepeatedSequence)
            else RepeatedSequence.from_sequence(merge_gates(run, self.passes))
        )

    def bound_state(self) -> CompiledState:
        """Bind the pending gates, and return the state after them."""
        return CompiledState(self.flush().handle)

    def flush(self) -> GateState:
        """Bind the pending gates; return what all have changed."""
        self._bind_pending()
        return self._state

    def flush_carry(self) -> GateState:
        """Bind the pending gates; return what a loop or conditional carries."""
        now = self.flush()
        return now if self.has_dynamic_count else now._replace(dynamic_params=None)

    def peek_carry(self) -> GateState:
        """Return what all bound gates have changed, for what hands it on and does not read it."""
        return self._state._replace(dynamic_params=None)

    def resume(self, state: GateState) -> None:
        """Go on after a part of the circuit that has changed this."""
        self._state = state.ensure_dynamic_params(self.dynamic_params)

    def replace_handle(self, handle: Handle, count: DynamicParams | None = None) -> None:
        """Go on after something else that has changed the state, and counts."""
        self._state = self._state._replace(
            handle=handle, dynamic_params=count or self.dynamic_params
        )

    def append_params(self, params: Any, frequencies: np.ndarray) -> None:
        """Append the parameters of gates that are bound to those of the circuit."""
        self._params.append(params)
        self._frequencies.append(frequencies)

    def stack_params(self) -> Any:
        """Return all parameters so far."""
        return jnp.concatenate([jnp.zeros(0, Precision.real_type()), *self._params])

    def stack_frequencies(self) -> np.ndarray:
        """Return the bits of the frequencies of each."""
        return np.concatenate([np.zeros(0, np.uint8), *self._frequencies])

    @contextmanager
    def trace_part(self, state: GateState, *, is_dynamic_count: bool = False) -> Iterator[None]:
        """Trace a loop's body or a branch as a jaxpr of its own.

        Args:
            state: at its beginning, inputs of that jaxpr.
            is_dynamic_count: whether the parameters in it are dynamic-count ones.
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
        # A state preparation in it is not the first operation of the circuit.
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
        """Return a function that applies the gates of a block of iterations, and its first state.

        Both are for ``consume_iterations``.

        Args:
            repeated: the gates of one iteration.
        """

        def apply(state: GateState, inputs: Any, n_iterations: int | Operand) -> Any:
            params, wires = map(jnp.ravel, inputs)
            with self.trace_part(state, is_dynamic_count=True):
                self.bind_sequence(
                    repeated.sequence, params, wires, n_iterations * repeated.n_iterations
                )
                return self.flush_carry()

        return apply, self.flush_carry()

    def _bind_pending(self) -> None:
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
        """Bind a run of gates behind those that are bound.

        Args:
            sequence: the gates.
            params: their parameters.
            wires: those that the program computes.
            n_iterations: how often they are repeated, in a loop.
        """
        obstacle = _find_obstacle(sequence)
        self.may_change_norm |= may_change_norm(sequence.gates, if_traced=self._keeps_matrices)
        is_prepared = sequence.derivative is DerivativeKind.BY_AMPLITUDES
        if is_prepared:
            self.amplitudes, self.amplitude_bits = as_numbers(params), bytes(sequence.frequencies)
        is_counted = not obstacle and not is_prepared
        offset = self.dynamic_params.next_index if self.is_dynamic_count else self._state.offset
        state = CompiledState(self._state.handle).apply_gates(
            sequence.gates,
            params,
            offset if is_counted else None,
            wires,
            n_iterations=n_iterations,
            obstacle=obstacle,
            is_preparation=is_prepared,
        )
        self._state = self._state._replace(handle=state.handle)
        if not sequence.n_params or not is_counted:
            return
        n = sequence.n_params if n_iterations is None else n_iterations * sequence.n_params
        if self.is_dynamic_count:
            self._state = self._state._replace(
                dynamic_params=self.dynamic_params.add_params(self.session, params, n)
            )
            self.dynamic_frequencies |= functools.reduce(operator.or_, sequence.frequencies)
            return
        self._state = self._state._replace(offset=self._state.offset + jnp.int32(n))
        frequencies = np.asarray(sequence.frequencies, np.uint8)
        self.append_params(
            params, np.tile(frequencies, 1 if n_iterations is None else n_iterations)
        )


def _find_obstacle(sequence: GateSequence) -> str:
    """Return why gates cannot be differentiated by their parameters; empty if they can."""
    if sequence.derivative is not DerivativeKind.NONE:
        return ""
    names = ", ".join(dict.fromkeys(gate.name for gate in sequence.gates if gate.slots))
    return (
        f"the parameters of {names} are differentiated, which the adjoint method cannot "
        "do, nor parameter shifts. Use gates with angles, diff_method='finite-diff', or "
        "differentiate by other arguments."
    )
