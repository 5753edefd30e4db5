"""Errors of circuits on ``default.qubit`` and ``default.mixed`` that show when they run.

A check is a pure callback that the results depend on: where nobody uses them, as in branches that
``jax.vmap`` computes and drops, it need not run.

That a computed wire does not exist, or that computed matrices are no channel, must not be raised
inside of such a circuit: under ``jax.vmap`` branches that are not taken are computed too, and so is
what follows impossible outcomes.  So a circuit carries its first fault beside its state, and is
checked once, after its end.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.callbacks.pure_callback import PureCallback
from bellhop.circuits.ir.wires import WireMap, is_dynamic
from bellhop.compiler.builtin_function import BuiltinFunction
from bellhop.errors import CircuitError
from bellhop.tracing.state import trace_state

# A run through outcomes that are less likely does not happen.
_MIN_PROBABILITY = 1e-15
# Behind what it is of, a place has what is wrong there whatever the wire.
_PROBLEM_SEPARATOR = "\t"


def guard_values(values: Any, check: BuiltinFunction, operand: Any, *, fails: Any) -> Any:
    """Return a pytree of arrays, unless a check of an operand raises when the program runs.

    Args:
        values: the pytree.
        check: raises the error.
        operand: what it takes.
        fails: whether it will; the host, for which another device waits, is not called otherwise.
            In a region over several devices it never is, each of which would call it: there the
            values are NaN, or -1 of integers.
    """
    if trace_state().state_axes is not None:
        is_well = ~fails
    else:
        call = PureCallback(check, jax.ShapeDtypeStruct((), bool), "broadcast_all")
        is_well = jax.lax.cond(fails, call, lambda _: ~fails, operand)

    def guard_leaf(value: Any) -> Any:
        nothing = jnp.nan if jnp.issubdtype(value.dtype, jnp.inexact) else -1
        return jnp.where(is_well, value, jnp.asarray(nothing).astype(value.dtype))

    return jax.tree.map(guard_leaf, values)


class DrawCheck(BuiltinFunction):
    """Refuses to draw outcomes by probabilities that are NaN; it is made of the QNode."""

    __name__ = "draw_check"
    is_of_circuit = True

    def __call__(self, totals: np.ndarray) -> np.ndarray:
        """Return that all is well for each sum of probabilities."""
        [where] = self.arguments
        # As the engine says it, runtime/devices/error.h.
        if np.isnan(totals).any():
            raise CircuitError(
                f"{where}: probabilities of outcomes are NaN. A parameter of the circuit is no "
                "number."
            )
        return np.ones(np.shape(totals), bool)


def check_draw(values: Any, total: Any, where: str) -> Any:
    """Return values that are drawn, or raise an error at run time if probabilities are NaN.

    Args:
        values: pytree of arrays, which are drawn.
        total: real scalar, the sum of the probabilities.
        where: the QNode, for errors.
    """
    return guard_values(values, DrawCheck(where), total, fails=jnp.isnan(total))


class FaultRecorder:
    """What may be wrong with the operations of a circuit, each at a place in the program.

    A fault is ``i32[2]``: the number of its place, from one, below zero where one wire came twice,
    and the wire.  Without any, both are zero.

    Args:
        wires: those that there are.
        where: the QNode, for errors.
    """

    def __init__(self, wires: WireMap, where: str) -> None:
        self._wires = wires
        self._where = where
        self._locations: list[str] = []

    @staticmethod
    def make_no_fault() -> Any:
        """Return the fault of a circuit without one."""
        return jnp.zeros(2, jnp.int32)

    def record_wires(self, fault: Any, labels: Sequence[Any], subject: str, site: str) -> Any:
        """Return the first fault when some wires were used, of which the program computes some.

        Args:
            fault: the one before.
            labels: the wires.
            subject: what uses them.
            site: its line, or nothing.
        """
        if not any(map(is_dynamic, labels)):
            return fault
        number = self._add_location(_describe_location(subject, site))
        wires = jnp.stack(
            [WireMap.as_int32(jnp.asarray(self._wires.get_qubit(label))) for label in labels]
        )
        is_out = (wires < 0) | (wires >= len(self._wires))
        is_twice = jnp.sum(wires[:, None] == wires, axis=1) > 1
        place = jnp.where(jnp.any(is_out), number, -number)
        wire = wires[jnp.argmax(jnp.where(jnp.any(is_out), is_out, is_twice))]
        here = jnp.where(jnp.any(is_out | is_twice), jnp.stack([place, wire]), 0)
        return jnp.where(fault[0] == 0, here, fault).astype(jnp.int32)

    def record_channel(
        self, fault: Any, kraus_matrices: Sequence[Any], subject: str, site: str
    ) -> Any:
        """Return the first fault when a channel was applied whose matrices the program computes.

        PennyLane looks at known ones when the user makes the channel.

        Args:
            fault: the one before.
            kraus_matrices: those of the channel.
            subject: the channel.
            site: its line, or nothing.
        """
        if not any(map(is_dynamic, kraus_matrices)):
            return fault
        stack = jax.lax.stop_gradient(jnp.stack(list(map(jnp.asarray, kraus_matrices))))
        precision = jax.lax.Precision.HIGHEST
        total = jnp.einsum("kab,kac->bc", stack.conj(), stack, precision=precision)
        # As PennyLane compares them, and not closer than sums are rounded.
        rounding = 100 * float(jnp.finfo(stack.dtype).eps)
        is_whole = jnp.allclose(total, np.eye(stack.shape[-1]), atol=max(1e-8, rounding))
        problem = (
            "only trace preserving channels can be applied, whose Kraus matrices K have one as the "
            "sum of K^dagger K"
        )
        number = self._add_location(
            f"{_describe_location(subject, site)}{_PROBLEM_SEPARATOR}{problem}"
        )
        here = jnp.where(is_whole, 0, jnp.array([number, 0]))
        return jnp.where(fault[0] == 0, here, fault).astype(jnp.int32)

    def _add_location(self, text: str) -> int:
        self._locations.append(text)
        return len(self._locations)

    def raise_faults(self, values: Any, faults: Any, weights: Any = None) -> Any:
        """Return values as they are, or raise the fault of a circuit when it runs.

        Args:
            values: a pytree of arrays.
            faults: one, or those of several runs in rows.
            weights: how likely each of these is.
        """
        if not self._locations:
            return values
        if weights is not None:
            counts = (faults[:, 0] != 0) & (weights > _MIN_PROBABILITY)
            faults = jnp.where(jnp.any(counts), faults[jnp.argmax(counts)], 0)
        check = FaultCheck(self._where, "\n".join(self._locations), str(len(self._wires)))
        return guard_values(values, check, faults, fails=jnp.any(faults != 0))


def _describe_location(subject: str, site: str) -> str:
    return f"{subject} ({site})" if site else subject


def _describe_wire(wire: int) -> str:
    """Return a wire that was taken to 32 bits, in words."""
    limits = np.iinfo(np.int32)
    return f"{wire}{' or more' if wire == limits.max else ' or less' if wire == limits.min else ''}"


class FaultCheck(BuiltinFunction):
    """Raises a fault; it is made of the QNode, the places in lines, and how many wires it has."""

    __name__ = "fault_check"
    is_of_circuit = True

    def __call__(self, faults: np.ndarray) -> np.ndarray:
        """Raise the first of some faults; return that all is well for each."""
        where, places, n_wires = self.arguments
        for number, wire in np.reshape(faults, (-1, 2)).tolist():
            if number:
                last = int(n_wires) - 1
                what, _, problem = places.splitlines()[abs(number) - 1].partition(
                    _PROBLEM_SEPARATOR
                )
                problem = problem or (
                    f"wire {_describe_wire(wire)} is not in the circuit, which has wires 0 to "
                    f"{last}"
                    if number > 0
                    else f"expected different wires, got {wire} twice"
                )
                raise CircuitError(f"{where}: {what}: {problem}.")
        return np.ones(faults.shape[:-1], bool)
