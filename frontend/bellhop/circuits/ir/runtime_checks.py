"""Runtime checks of circuits on ``default.qubit`` and ``default.mixed``.

A check is a pure callback that the results depend on. It does not run if the results are unused, as
in branches that ``jax.vmap`` computes and discards.

Invalid traced wires and traced matrices that are not a channel do not raise at once: under
``jax.vmap``, branches that are not taken and impossible outcomes are computed too.  So a circuit
carries its first fault together with its state, and the fault is checked once, after the last
operation.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray

from bellhop.callbacks.pure_callback import PureCallback
from bellhop.circuits.ir.wires import WireMap, is_dynamic
from bellhop.compiler.builtin_function import BuiltinFunction
from bellhop.errors import CircuitError
from bellhop.tracing.state import trace_state

# Faults in executions with a smaller probability are ignored.
_MIN_PROBABILITY = 1e-15
# Separates the subject of a location from an error text that does not depend on the wire.
_PROBLEM_SEPARATOR = "\t"


def guard_values(values: Any, check: BuiltinFunction, operand: Any, *, fails: Any) -> Any:
    """Return ``values``, or raise the error of a check when the program runs.

    The check is called in Python only if ``fails``, so that accelerators do not wait for the host.
    It is never called in a region over several devices, since each device would call it: there,
    ``values`` become NaN, or -1 for integers.

    Args:
        values: pytree of arrays.
        check: host function of ``operand``, which raises the error.
        operand: array, the argument of ``check``.
        fails: bool scalar, whether ``check`` will raise.

    Returns:
        ``values``, with a data dependence on the check.
    """
    if trace_state().state_axes is not None:
        is_valid = ~fails
    else:
        call = PureCallback(check, jax.ShapeDtypeStruct((), bool), "broadcast_all")
        is_valid = jax.lax.cond(fails, call, lambda _: ~fails, operand)

    def guard_leaf(value: Any) -> Any:
        """Return an array if the check succeeded, else an array of NaN or -1."""
        fill = jnp.nan if jnp.issubdtype(value.dtype, jnp.inexact) else -1
        return jnp.where(is_valid, value, jnp.asarray(fill).astype(value.dtype))

    return jax.tree.map(guard_leaf, values)


class DrawCheck(BuiltinFunction):
    """Host function that raises an error if outcome probabilities are NaN.

    Calling it with the sums of the probabilities returns True for each sum, or raises
    ``CircuitError``. Its only static argument is the QNode's name and line, for the error message.
    """

    __name__ = "draw_check"
    is_of_circuit = True
    kinds = ("pure",)

    @staticmethod
    def check_init_args(where: str) -> None:  # type: ignore[override]
        """Accept one string, the QNode's name and line."""

    def accepts_types(
        self, arguments: Sequence[ShapedArray], results: Sequence[ShapedArray]
    ) -> bool:
        """Return whether a call's types are one float array, and bools of the same shape.

        Args:
            arguments: the types of the call's arguments, which are the sums of probabilities.
            results: the types of the call's declared results.
        """
        if len(arguments) != 1 or not jnp.issubdtype(arguments[0].dtype, jnp.floating):
            return False
        return _is_bool_array(results, arguments[0].shape)

    def __call__(self, totals: np.ndarray) -> np.ndarray:
        """Return True for each sum of probabilities, or raise ``CircuitError`` for a NaN."""
        [where] = self.arguments
        # The same text as the engine's error, runtime/devices/error.h.
        if np.isnan(totals).any():
            raise CircuitError(
                f"{where}: the probabilities of outcomes are NaN. A circuit parameter is NaN or "
                "infinite."
            )
        return np.ones(np.shape(totals), bool)


class MeanCheck(BuiltinFunction):
    """Host function that raises the error for a result that is not a mean over shots.

    Calling it with rows of a result, the expected mean, and whether they differ returns True for
    each row, or raises ``CircuitError`` for the first row that differs.  Its static arguments are
    the QNode's name and line, and the name of the measurement's class.
    """

    __name__ = "mean_check"
    is_of_circuit = True
    kinds = ("pure",)

    @staticmethod
    def check_init_args(where: str, name: str) -> None:  # type: ignore[override]
        """Accept two strings: the QNode's name and line, and the measurement's class."""

    def accepts_types(
        self, arguments: Sequence[ShapedArray], results: Sequence[ShapedArray]
    ) -> bool:
        """Return whether a call's types are a float array ``[..., 3]``, and bools ``[...]``.

        Args:
            arguments: the types of the call's arguments.
            results: the types of the call's declared results.
        """
        if len(arguments) != 1 or not jnp.issubdtype(arguments[0].dtype, jnp.floating):
            return False
        *rows, last = arguments[0].shape or (0,)
        return last == 3 and _is_bool_array(results, tuple(rows))

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Raise ``CircuitError`` for the first row that differs; else return True for each.

        ``values`` is an array ``[..., 3]``; a row has a result, the expected mean, and whether
        they differ (0 or 1).
        """
        where, name = self.arguments
        for result, mean, differs in np.reshape(values, (-1, 3)):
            if differs:
                raise CircuitError(
                    f"{where}: {name} is differentiated, and the result of its method "
                    f"process_samples is not a mean over shots: got {result:g} for all samples, "
                    f"expected {mean:g}, the mean of the results for single samples. Return a "
                    "mean, or compute the function from several means."
                )
        return np.ones(values.shape[:-1], bool)


def _is_bool_array(results: Sequence[ShapedArray], shape: tuple[int, ...]) -> bool:
    """Return whether ``results`` are the type of one bool array of the given shape."""
    return [(x.shape, x.dtype) for x in results] == [(shape, np.dtype(bool))]


class FaultRecorder:
    """Computes the first fault of a circuit at run time, and its source location.

    The recorder lists a description of each checked operation.  A fault is an invalid traced wire
    or channel, as an ``i32[2]``: the faulty operation's position in this list, counted from one and
    negated if a wire is repeated, and the qubit index (0 for a channel).  Both are zero for a
    circuit without a fault.  The circuit of a backend carries the fault together with its state.

    Args:
        wires: maps wire labels to qubits.
        where: the QNode's name and line, for error messages.
    """

    def __init__(self, wires: WireMap, where: str) -> None:
        self._wires = wires
        self._where = where
        self._locations: list[str] = []

    @staticmethod
    def make_no_fault() -> Any:
        """Return the fault value that means "no fault"."""
        return jnp.zeros(2, jnp.int32)

    def record_wires(self, fault: Any, labels: Sequence[Any], subject: str, site: str) -> Any:
        """Check that traced wires of an operation exist and are distinct.

        The check is computed in the program. Operations whose wires are all static are not checked.

        Args:
            fault: ``i32[2]``, the first fault of earlier operations.
            labels: the wires of the operation, static or traced.
            subject: the operation or measurement, for error messages.
            site: its ``file:line``; may be empty.

        Returns:
            ``i32[2]``, the first fault up to this operation.

        Raises:
            CompileError: if some wire is traced and a static label is unknown to the device.
        """
        if not any(map(is_dynamic, labels)):
            return fault
        number = self._add_location(_describe_location(subject, site))
        wires = jnp.stack(
            [WireMap.clip_to_int32(jnp.asarray(self._wires.get_qubit(label))) for label in labels]
        )
        is_out = (wires < 0) | (wires >= len(self._wires))
        is_repeated = jnp.sum(wires[:, None] == wires, axis=1) > 1
        location = jnp.where(jnp.any(is_out), number, -number)
        wire = wires[jnp.argmax(jnp.where(jnp.any(is_out), is_out, is_repeated))]
        own_fault = jnp.where(jnp.any(is_out | is_repeated), jnp.stack([location, wire]), 0)
        return jnp.where(fault[0] == 0, own_fault, fault).astype(jnp.int32)

    def record_channel(
        self, fault: Any, kraus_matrices: Sequence[Any], subject: str, site: str
    ) -> Any:
        """Check that traced Kraus matrices of a channel preserve the trace.

        The check is computed in the program. PennyLane checks static matrices when the channel is
        constructed.

        Args:
            fault: ``i32[2]``, the first fault of earlier operations.
            kraus_matrices: the Kraus matrices ``[2**wires, 2**wires]``, static or traced.
            subject: the channel, for error messages.
            site: its ``file:line``; may be empty.

        Returns:
            ``i32[2]``, the first fault up to this channel.
        """
        if not any(map(is_dynamic, kraus_matrices)):
            return fault
        stack = jax.lax.stop_gradient(jnp.stack(list(map(jnp.asarray, kraus_matrices))))
        precision = jax.lax.Precision.HIGHEST
        total = jnp.einsum("kab,kac->bc", stack.conj(), stack, precision=precision)
        # PennyLane's tolerance, but not below the rounding error of the sum.
        rounding = 100 * float(jnp.finfo(stack.dtype).eps)
        preserves_trace = jnp.allclose(total, np.eye(stack.shape[-1]), atol=max(1e-8, rounding))
        problem = (
            "only trace preserving channels can be applied: the sum of K^dagger K over the Kraus "
            "matrices K must be the identity"
        )
        number = self._add_location(
            f"{_describe_location(subject, site)}{_PROBLEM_SEPARATOR}{problem}"
        )
        own_fault = jnp.where(preserves_trace, 0, jnp.array([number, 0]))
        return jnp.where(fault[0] == 0, own_fault, fault).astype(jnp.int32)

    def _add_location(self, text: str) -> int:
        """Append the description of an operation; return its number, counted from one."""
        self._locations.append(text)
        return len(self._locations)

    @staticmethod
    def check_draw(values: Any, total: Any, where: str) -> Any:
        """Return sampled values, or raise an error at run time if probabilities are NaN.

        Args:
            values: pytree of arrays, the samples.
            total: real scalar, the sum of the probabilities from which the samples were drawn.
            where: the QNode's name and line, for error messages.

        Returns:
            ``values``; in a region over several devices NaN or -1 instead of an error.
        """
        return guard_values(values, DrawCheck(where), total, fails=jnp.isnan(total))

    @staticmethod
    def check_mean(values: Any, result: Any, mean: Any, where: str, name: str) -> Any:
        """Return values, or raise an error at run time if a result is not a mean over shots.

        Args:
            values: pytree of arrays.
            result: real array, a function of all samples.
            mean: array of the same shape, the mean of the function over single samples.
            where: the QNode's name and line, for error messages.
            name: the name of the measurement's class, for error messages.

        Returns:
            ``values``; in a region over several devices NaN instead of an error.
        """
        tolerance = 1e3 * jnp.finfo(mean.dtype).eps
        differs = jnp.ravel(~jnp.isclose(result, mean, tolerance, tolerance, equal_nan=True))
        place = jnp.argmax(differs)
        row = jnp.stack([jnp.ravel(array)[place] for array in (result, mean, differs)])
        return guard_values(values, MeanCheck(where, name), row, fails=jnp.any(differs))

    def raise_faults(self, values: Any, faults: Any, weights: Any = None) -> Any:
        """Return ``values``, or raise the circuit's fault when the program runs.

        Args:
            values: pytree of arrays, the results of the circuit.
            faults: ``i32[2]``: the fault's number and a wire, see ``FaultCheck``; zeros if there is
                no fault. With ``weights`` ``i32[executions, 2]``.
            weights: real ``[executions]``, the probability of each execution. The first fault of a
                possible execution is raised.

        Returns:
            ``values``, with a data dependence on the check; in a region over several devices NaN or
            -1 instead of an error. Unchanged if nothing was recorded.
        """
        if not self._locations:
            return values
        if weights is not None:
            counts = (faults[:, 0] != 0) & (weights > _MIN_PROBABILITY)
            faults = jnp.where(jnp.any(counts), faults[jnp.argmax(counts)], 0)
        check = FaultCheck(self._where, "\n".join(self._locations), str(len(self._wires)))
        return guard_values(values, check, faults, fails=jnp.any(faults != 0))


def _describe_location(subject: str, site: str) -> str:
    """Return ``"subject (site)"``, or the subject alone if the site is empty."""
    return f"{subject} ({site})" if site else subject


def _describe_wire(wire: int) -> str:
    """Return a wire as text, such as "5".

    Traced wires are clipped to int32, so the limits of int32 become "2147483647 or more" and
    "-2147483648 or less".
    """
    limits = np.iinfo(np.int32)
    return f"{wire}{' or more' if wire == limits.max else ' or less' if wire == limits.min else ''}"


class FaultCheck(BuiltinFunction):
    """Host function that raises the error of a fault, see ``FaultRecorder``.

    Calling it with faults ``i32[..., 2]`` returns True for each row, or raises ``CircuitError`` for
    the first fault. A fault is the number of the operation's location, from 1 (negative if a wire
    occurs twice), and the wire; zeros if there is none. The static arguments are texts: the QNode's
    name and line, the locations (one per line), and the number of wires.
    """

    __name__ = "fault_check"
    is_of_circuit = True
    kinds = ("pure",)

    @staticmethod
    def check_init_args(where: str, locations: str, n_wires: str) -> None:  # type: ignore[override]
        """Raise a ValueError unless ``n_wires``, the number of wires, is an integer as text."""
        del where, locations
        int(n_wires)

    def accepts_types(
        self, arguments: Sequence[ShapedArray], results: Sequence[ShapedArray]
    ) -> bool:
        """Return whether a call's types are faults ``i32[..., 2]``, and bools ``[...]``.

        Args:
            arguments: the types of the call's arguments.
            results: the types of the call's declared results.
        """
        if len(arguments) != 1 or arguments[0].dtype != np.int32:
            return False
        *rows, last = arguments[0].shape or (0,)
        return last == 2 and _is_bool_array(results, tuple(rows))

    def __call__(self, faults: np.ndarray) -> np.ndarray:
        """Raise ``CircuitError`` for the first fault; else return True for each row."""
        where, locations, n_wires = self.arguments
        for number, wire in np.reshape(faults, (-1, 2)).tolist():
            if number:
                last = int(n_wires) - 1
                subject, _, problem = locations.splitlines()[abs(number) - 1].partition(
                    _PROBLEM_SEPARATOR
                )
                problem = problem or (
                    f"wire {_describe_wire(wire)} is not in the circuit, which has wires 0 to "
                    f"{last}"
                    if number > 0
                    else f"expected different wires, got {wire} twice"
                )
                raise CircuitError(f"{where}: {subject}: {problem}.")
        return np.ones(faults.shape[:-1], bool)
