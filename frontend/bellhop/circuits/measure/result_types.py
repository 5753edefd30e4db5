"""Describe the arrays that PennyLane's devices return for a measurement process."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pennylane as qml
from jax.core import ShapedArray

from bellhop.base.types import Operand
from bellhop.circuits.ir.circuit_config import Shots
from bellhop.circuits.ir.postselection import FILL_VALUE
from bellhop.circuits.ir.precision import Precision
from bellhop.errors import CircuitError, CompileError

mp = qml.measurements

# Devices whose states are density matrices.
_MIXED = ("default.mixed", "default.qutrit.mixed")
_QUTRIT = ("default.qutrit", "default.qutrit.mixed")

_DIFFERENTIABLE = (mp.ExpectationMP, mp.VarianceMP, mp.ProbabilityMP, mp.ShadowExpvalMP)


@dataclass(frozen=True, eq=False)
class ProcessResult:
    """The shape and dtype of the result that a PennyLane device returns for a measurement process.

    The program calls this device through Python, so the result type must be known when the circuit
    is traced. With shots, it is the result of one group of shots.

    Attributes:
        process: PennyLane's measurement process.
        shape: shape of the result array.
        dtype: type of the result array.
        values: for ``counts``, a sorted NumPy array of all values that a shot may have, and the
            result array has their counts; None for other processes.
        levels: dimension of a wire, 2 for qubits and 3 for qutrits.
    """

    process: Any
    shape: tuple[int, ...]
    dtype: Any
    values: Any
    levels: int

    @property
    def aval(self) -> ShapedArray:
        """The shape and type of the result array, as JAX's abstract value."""
        return ShapedArray(self.shape, self.dtype)

    @property
    def has_shift_rule(self) -> bool:
        """Whether every differentiation method, including parameter shift, supports the process."""
        return isinstance(self.process, _DIFFERENTIABLE)

    def read_array(self, value: Any) -> Any:
        """Convert a device's return value to an array of this result's shape and dtype.

        Called when the program runs.

        Args:
            value: the device's result for the process: an array, or a dictionary for ``counts``. If
                the device dropped rows of ``sample``, rows of `FILL_VALUE` are appended.

        Returns:
            NumPy array. If the values cannot be converted to the dtype, the array has another
            dtype, and the callback that calls this method raises an error.

        Raises:
            CircuitError: if the value has another shape, or imaginary parts for a real dtype.
        """
        if self.values is not None:
            value = self._count_outcomes(value)
        array = np.asarray(value)
        if array.size == np.prod(self.shape, dtype=int):
            array = array.reshape(self.shape)
        elif isinstance(self.process, mp.SampleMP) and array.shape[1:] == self.shape[1:]:
            # Devices drop shots whose postselection failed; the result marks these rows.
            whole = np.full(self.shape, FILL_VALUE, self.dtype)
            whole[: len(array)] = array
            array = whole
        else:
            raise self._make_error(f"an array of shape {array.shape}", f"the shape {self.shape}")
        if np.can_cast(array.dtype, self.dtype, "same_kind"):
            return array.astype(self.dtype)
        if array.dtype.kind == "c" and np.dtype(self.dtype).kind == "f":
            if not np.allclose(array.imag, 0, atol=1e-6):
                raise self._make_error("complex numbers", f"the dtype {self.dtype}")
            return np.real(array).astype(self.dtype)
        if np.dtype(self.dtype).kind == "i" and np.array_equal(array, np.round(array)):
            return array.astype(self.dtype)
        # The callback then raises the error for an undeclared result type.
        return array

    def _make_error(self, returned: str, expected: str) -> CircuitError:
        """Make the error for a device that returned another value than expected.

        Args:
            returned: describes the returned value, such as ``"complex numbers"``.
            expected: describes the expected value.
        """
        return CircuitError(
            f"the device returned {returned} for {self.process}, expected {expected}. "
            "Fix the device's execute method."
        )

    def finish(self, array: Operand) -> Any:
        """Convert the traced result array to the result of a compiled circuit.

        Returns:
            the array, or for ``counts`` the pair ``(values, counts)``.
        """
        return array if self.values is None else (jax.numpy.asarray(self.values), array)

    def _count_outcomes(self, counts: dict[Any, Any]) -> np.ndarray:
        """Convert a device's dictionary of counts to an array of counts.

        Args:
            counts: number of shots by outcome: a string of digits, or an eigenvalue, which is
                assigned to the closest of ``self.values``.

        Returns:
            integer array with an entry for each of ``self.values``.
        """
        array = np.zeros(self.shape, int)
        for outcome, number in counts.items():
            value = int(outcome, self.levels) if isinstance(outcome, str) else float(outcome)
            array[np.argmin(np.abs(self.values - value))] += number
        return array


def find_result(
    process: qml.measurements.MeasurementProcess,
    device: qml.devices.Device,
    n_wires: int,
    shots: int | None,
    where: str,
) -> ProcessResult:
    """Find the shape, dtype and counted values of a measurement process's result on a device.

    Args:
        process: PennyLane's measurement process.
        device: the PennyLane device that measures it.
        n_wires: number of wires of the device, or of the circuit if the device has none.
        shots: number of shots of the group; None without shots.
        where: the QNode's name and line, for error messages.

    Returns:
        the description of the result array, which for ``counts`` has the count of each of
        ``values``.

    Raises:
        CompileError: if the process needs shots, counts values that are not static, or is of a
            user's class without a declared shape or type.
    """
    levels = 3 if device.name in _QUTRIT else 2
    is_of_shots = isinstance(process, mp.SampleMP | mp.CountsMP)
    if is_of_shots and shots is None:
        raise CompileError(
            f"{where}: {_get_name(process)} needs shots, and the QNode has none. Set them: "
            f"{Shots.ADVICE}."
        )
    if isinstance(process, mp.CountsMP):
        values = _list_counted_values(process, n_wires, levels, where)
        integer = jax.dtypes.canonicalize_dtype(int)
        return ProcessResult(process, values.shape, integer, values, levels)
    try:
        dtype: Any = getattr(process, "_dtype", None) or process.numeric_type
        process.shape(shots, n_wires)
    except qml.exceptions.QuantumFunctionError as error:
        raise CompileError(
            f"{where}: {type(process).__name__} has no declared result type, which a program needs "
            "before the device runs. Define the method shape and the property numeric_type of this "
            "class."
        ) from error
    wires = len(process.wires) or n_wires
    dimension = levels**wires
    if isinstance(process, mp.ProbabilityMP) and levels != 2:
        shape: tuple[int, ...] = (dimension,)
    elif isinstance(process, mp.DensityMatrixMP):
        shape = (dimension, dimension)
    elif type(process) is mp.StateMP and getattr(device, "_tableau", False):
        # default.clifford's tableau (its default): a row for each generator, with its sign.
        shape, dtype = (2 * wires, 2 * wires + 1), int
    elif type(process) is mp.StateMP:
        shape = (dimension, dimension) if device.name in _MIXED else (dimension,)
    elif is_of_shots and process.mv is not None and not isinstance(process.mv, list):
        # PennyLane declares one axis more than its devices return.
        shape = tuple(process.shape(shots, n_wires))[:1]
    else:
        shape = tuple(process.shape(shots, n_wires))
    if isinstance(process, mp.ClassicalShadowMP):
        dtype = np.int8
    if is_state_sized(process) and Precision.is_single_device(device) and shots is None:
        dtype = np.float32 if dtype is float else np.complex64
    return ProcessResult(process, shape, jax.dtypes.canonicalize_dtype(dtype), None, levels)


def is_state_sized(value: object) -> bool:
    """Return whether a value measures a state, a density matrix or probabilities."""
    return isinstance(value, qml.measurements.StateMP | qml.measurements.ProbabilityMP)


def _list_counted_values(
    process: qml.measurements.MeasurementProcess, n_wires: int, levels: int, where: str
) -> np.ndarray:
    """List all values that ``counts`` may count: basis states, outcomes or eigenvalues.

    Args:
        process: PennyLane's ``counts``.
        n_wires: number of wires of the circuit, used if the process names no wires.
        levels: dimension of a wire, 2 for qubits and 3 for qutrits.
        where: the QNode's name and line, for error messages.

    Returns:
        sorted array without duplicates: integers for basis states and outcomes, floats for
        eigenvalues.

    Raises:
        CompileError: for an expression of outcomes, whose values are not static.
    """
    if process.mv is not None:
        if not isinstance(process.mv, list):
            if not process.mv.has_processing:
                return np.arange(2)
            raise CompileError(
                f"{where}: qml.counts of an expression of mid-circuit outcomes is not supported, "
                "as the values of the expression are not known at compile time. Use qml.sample of "
                "the expression, or qml.counts of the outcomes."
            )
        return np.arange(2 ** len(process.mv))
    if process.obs is None:
        return np.arange(levels ** (len(process.wires) or n_wires))
    return np.unique(np.round(process.eigvals(), 12))


def _get_name(process: qml.measurements.MeasurementProcess) -> str:
    """Return the function that users call for a process of samples or counts."""
    return "sample" if isinstance(process, mp.SampleMP) else "counts"
