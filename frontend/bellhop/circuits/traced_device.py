"""Circuits on ``default.qubit``: traced into the program, gate by gate.

The state is an array of the program, and gates and measurements are PennyLane's own functions
of it.  So such a circuit differentiates to any order, is batched by ``jax.vmap``, and runs on
whatever device the region around it runs on.
"""

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
from pennylane.devices.default_qubit import stopping_condition
from pennylane.devices.qubit import apply_operation, create_initial_state, measure
from pennylane.operation import StatePrepBase

from bellhop.circuits.gates import DECOMPOSITION_DEPTH, MID_CIRCUIT, OBSERVABLES
from bellhop.circuits.observables import Factor, HasNoMatrixError, Named, as_sum_of_products
from bellhop.circuits.primitives import undifferentiable
from bellhop.circuits.queue import QueuedCircuit
from bellhop.circuits.wires import WireMap, is_dynamic
from bellhop.control_flow.branches import choose
from bellhop.control_flow.for_loop import repeat
from bellhop.control_flow.while_loop import repeat_while
from bellhop.errors import CompileError

# Exact methods, all of which have the values that JAX computes through the state.
_EXACT_METHODS = ("best", "backprop", "adjoint", "parameter-shift")


def is_traced_device(device: Any) -> bool:
    """Tell whether circuits on a PennyLane device are traced into the program."""
    return isinstance(device, qml.devices.DefaultQubit)


class TracedCircuit(QueuedCircuit):
    """A circuit whose state is an array with one axis of two for each qubit.

    Args:
        wires: gives the qubit of a wire label.
        where: the QNode, for errors.
    """

    def __init__(self, wires: WireMap, where: str) -> None:
        super().__init__(where)
        self._qubits = len(wires)
        self._wires = wires
        self._state = self._in_precision(create_initial_state(range(self._qubits)))
        self._is_fresh = True
        # Parameter broadcasting: an axis in front of those of the qubits.
        self._is_batched = False
        self._is_part = False

    def apply(self, operations: Sequence[Any]) -> None:
        """Apply operations to the state, in order."""
        with qml.QueuingManager.stop_recording(), _without_precision_warnings():
            for op in operations:
                self._apply(op)
        self._state = self._in_precision(self._state)

    def _in_precision(self, state: Any) -> Any:
        # Gates with parameters of half the precision must not change the type of a loop's state.
        return jnp.asarray(state, jax.dtypes.canonicalize_dtype(complex))

    def _apply(self, op: Any, depth: int = 0) -> None:
        if op.name in MID_CIRCUIT:
            raise CompileError(
                f"{self._where}: mid-circuit measurements on default.qubit are not supported yet "
                "by bellhop."
            )
        if isinstance(op, OBSERVABLES):
            raise CompileError(
                f"{self._where}: the observable {op.name} stands where gates are collected. Make "
                "it where it is measured, after all loops, or outside the QNode."
            )
        if op.batch_size is not None and not self._is_batched and self._is_part:
            raise CompileError(
                f"{self._where}: {op.name} has a batch of parameters, and stands in a loop or "
                "conditional. Use jax.vmap over the QNode."
            )
        if self._is_fresh and isinstance(op, StatePrepBase):
            mapped = self._on_qubits(op)
            self._state = jnp.asarray(create_initial_state(range(self._qubits), mapped))
        elif _is_applied(op):
            self._state = self._after_gate(op, self._state)
        elif op.has_decomposition and depth < DECOMPOSITION_DEPTH:
            for part in op.decomposition():
                self._apply(part, depth + 1)
            return
        else:
            raise CompileError(
                f"{self._where}: the device does not apply {op.name}, and PennyLane has no "
                "decomposition of it."
            )
        self._is_fresh = False
        self._is_batched = self._is_batched or op.batch_size is not None

    def _after_gate(self, op: Any, state: Any) -> Any:
        if any(map(is_dynamic, op.wires)):
            return self._after_gate_on_dynamic_wires(op, state)
        return apply_operation(self._on_qubits(op), state, is_state_batched=self._is_batched)

    def _after_gate_on_dynamic_wires(self, op: Any, state: Any) -> Any:
        """Bring the wires of a gate to the front, apply it there, and bring them back."""
        wires = [self._wires.dynamic(w) if is_dynamic(w) else self._wires(w) for w in op.wires]
        n = self._qubits
        chosen = jnp.stack([jnp.asarray(wire, jnp.int32) for wire in wires])
        rank = jnp.arange(n).at[chosen].set(jnp.arange(len(wires)) - len(wires))
        weights = 2 ** (n - 1 - jnp.argsort(rank))
        bits = (np.arange(2**n)[:, None] >> np.arange(n)[::-1]) & 1
        source = jnp.sum(bits * weights, axis=1)
        flat = state.reshape(*state.shape[:-n], 2**n)
        there = flat[..., source].reshape(state.shape)
        front = op.map_wires(dict(zip(op.wires, range(len(wires)), strict=True)))
        after = apply_operation(front, there, is_state_batched=self._is_batched)
        flat = jnp.zeros((*after.shape[:-n], 2**n), after.dtype)
        back = flat.at[..., source].set(after.reshape(flat.shape)).reshape(after.shape)
        # Here nothing can be raised, so a wire that is not there shows in every result.
        is_there = jnp.all((chosen >= 0) & (chosen < n))
        is_distinct = jnp.sum(chosen[:, None] == chosen) == len(wires)
        return jnp.where(is_there & is_distinct, back, jnp.nan)

    def _on_qubits(self, part: Any) -> Any:
        """Return an operation or measurement with qubits in place of wire labels."""
        qubits = {wire: self._wires(wire) for wire in part.wires}
        if all(wire == qubit for wire, qubit in qubits.items()):
            return part
        return part.map_wires(qubits)

    def for_loop(
        self, trips: Any, iteration: Callable[..., Any], carried: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Run a loop whose body applies gates; return the carried values."""
        self.flush_active("for_loop")

        def step(carried: tuple[Any, ...], trip: Any) -> tuple[Any, ...]:
            return self._after(carried[0], iteration, carried[1:], trip)

        self._state, *rest = repeat(trips, step, (self._state, *carried))
        return tuple(rest)

    def while_loop(
        self,
        condition: Callable[..., Any],
        iteration: Callable[..., Any],
        carried: tuple[Any, ...],
    ) -> tuple[Any, ...]:
        """Run a loop whose body applies gates while a condition on the carried values holds."""
        self.flush_active("while_loop")

        def goes_on(carried: tuple[Any, ...]) -> Any:
            return self.evaluate_condition(condition, carried[1:])

        def step(carried: tuple[Any, ...]) -> tuple[Any, ...]:
            return self._after(carried[0], iteration, carried[1:])

        self._state, *rest = repeat_while(goes_on, step, (self._state, *carried))
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
        before = self._state

        def recorded(branch: Callable[[], Any]) -> Callable[[], Any]:
            return lambda: self._after(before, lambda: (branch(),))

        runs = [recorded(branch) for branch in branches]
        self._state, result = choose(construct, index, names, runs)
        return result

    def _after(self, state: Any, function: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
        """Run a part of the circuit from a state; return the state after it, and its results."""
        outer = self._state, self._is_part
        self._state, self._is_part, self._is_fresh = state, True, False
        try:
            with self.queue():
                results = function(*args)
            return (self._state, *results)
        finally:
            self._state, self._is_part = outer

    def measure(self, processes: Sequence[Any], diff_method: str) -> list[Any]:
        """Measure, and return the values in order."""
        for process in processes:
            self.check_observable(process.obs)
        with qml.QueuingManager.stop_recording(), _without_precision_warnings():
            values = [self._measure(process) for process in processes]
        if diff_method in _EXACT_METHODS:
            return values
        obstacle = (
            f"{self._where}: it is differentiated, and its diff_method is '{diff_method}'; on "
            f"default.qubit bellhop supports {', '.join(map(repr, _EXACT_METHODS))}."
        )
        return [undifferentiable(value, obstacle) for value in values]

    def _measure(self, process: Any) -> Any:
        mp = qml.measurements
        if process.mv is not None:
            raise self._unsupported("measurements of mid-circuit values")
        if not isinstance(process, mp.StateMeasurement):
            raise self._unsupported(f"the measurement {type(process).__name__} without shots")
        if process.obs is not None and isinstance(process, mp.ExpectationMP | mp.VarianceMP):
            return self._moment(process)
        if process.obs is not None and any(map(_is_traced, process.obs.data)):
            # PennyLane keeps what it diagonalizes under a key that does not tell tracers apart.
            raise self._unsupported("probs of an observable that the program computes")
        return measure(self._on_qubits(process), self._state, self._is_batched)

    def _moment(self, process: Any) -> Any:
        """Return an expectation value or variance, by applying the observable to the state.

        PennyLane would diagonalize some observables, whose derivative is none where
        eigenvalues are equal.
        """
        try:
            terms = as_sum_of_products(process.obs)
        except HasNoMatrixError as error:
            what = f"the observable {error}, which has no matrix,"
            raise self._unsupported(what) from None
        applied = sum(
            jnp.real(coefficient) * self._applied(factors) for coefficient, factors in terms
        )
        mean = self._inner_product(self._state, applied)
        if isinstance(process, qml.measurements.ExpectationMP):
            return mean
        return self._inner_product(applied, applied) - mean**2

    def _applied(self, factors: Sequence[Factor]) -> Any:
        state = self._state
        for factor in factors:
            if isinstance(factor, Named):
                op = getattr(qml, factor.name)(factor.wire)
            else:
                op = qml.Hermitian(factor.matrix, wires=factor.wires)
            state = self._after_gate(op, state)
        return state

    def _inner_product(self, left: Any, right: Any) -> Any:
        axes = tuple(range(-self._qubits, 0))
        return jnp.sum(jnp.real(jnp.conj(left) * right), axis=axes)

    def _unsupported(self, what: str) -> CompileError:
        return CompileError(f"{self._where}: {what} on default.qubit: not supported by bellhop.")


def _is_applied(op: Any) -> bool:
    """Tell whether PennyLane applies an operation to a state as it is."""
    if isinstance(op, qml.ops.Pow) and any(map(_is_traced, op.data)):
        # A power of a matrix is not differentiable everywhere, and decompositions are.
        return not op.has_decomposition
    return stopping_condition(op, allow_mcms=False) and op.has_matrix


def _is_traced(value: Any) -> bool:
    return isinstance(value, jax.core.Tracer)


@contextlib.contextmanager
def _without_precision_warnings() -> Iterator[None]:
    """Let PennyLane ask for 128 bits where JAX's 64-bit types are off."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Explicitly requested dtype")
        yield
