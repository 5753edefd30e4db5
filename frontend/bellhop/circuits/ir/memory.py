"""Errors for circuits that do not fit into memory, before they allocate anything.

The checks are at compile time, since Linux overcommits memory and kills the process on use.

A state in the program is an array, so ``jax.vmap`` creates one for each batch row.  The number of
rows is unknown while a circuit is traced.  So a tag on the state checks the size when the state is
batched.  The tag also holds the description of the circuit for drawings.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.export import is_symbolic_dim

from bellhop.base.types import Operand
from bellhop.control_flow.tagged_values import ValueTag, tag_value
from bellhop.devices.device_memory import (
    format_gib,
    memory_of_process,
    min_device_memory,
    required_device_count,
)
from bellhop.errors import CompileError

# Bytes.
_AMPLITUDE_BYTES, _NUMBER_BYTES = 16, 8


def check_state_fits(
    qubits: int,
    where: str,
    *,
    axes: int = 1,
    rows: int | None = None,
    amplitude: int = _AMPLITUDE_BYTES,
) -> None:
    """Raise an error if a state needs more memory than this process may use.

    Args:
        qubits: the number of qubits.
        where: the QNode and its line, for errors.
        axes: 1 for a state vector, 2 for a density matrix.
        rows: the batch size; None without a batch.
        amplitude: bytes of one amplitude.

    Raises:
        CompileError: names the circuit, its qubits, the required and the available memory.
    """
    noun = "the state" if axes == 1 else "a density matrix"
    _check_size(amplitude << axes * qubits, f"{noun} of {qubits} qubits", "wires", where, rows)


# Each device holds at least its shard before and after a gate. The exact amount is known only after
# compilation (``compiler/regions.py``), which is slower than this lower bound.
_STATES_AT_ONCE = 2


def check_shards_fit(
    qubits: int, where: str, *, devices: Sequence[jax.Device], n_shards: int, amplitude: int
) -> None:
    """Raise an error if a sharded state certainly exceeds its devices' memory.

    Args:
        qubits: the number of qubits.
        where: the QNode and its line, for errors.
        devices: the devices of the mesh.
        n_shards: the number of shards of the state.
        amplitude: bytes of one amplitude.

    Raises:
        CompileError: names the circuit, the required and available memory per device, and a
            sufficient number of devices.
    """
    required = _STATES_AT_ONCE * amplitude << qubits
    available = min_device_memory(devices)
    if required <= available * n_shards:
        return
    raise CompileError(
        f"{where}: the state of {qubits} qubits, and the one after a gate, would take "
        f"{format_gib(required // n_shards)} of memory for each of {n_shards} devices, and each "
        f"has {format_gib(available)}. {required_device_count(required, available)} such devices "
        "would do. Use these, fewer wires or single precision."
    )


def check_shots_fit(shots: int, where: str, *, rows: int | None = None) -> None:
    """Raise an error if one 8-byte number per shot does not fit into memory.

    Args:
        shots: the number of shots.
        where: the QNode and its line, for errors.
        rows: the batch size; None without a batch.

    Raises:
        CompileError: names the circuit, its shots, the required and the available memory.
    """
    _check_size(_NUMBER_BYTES * shots, f"{shots} shots", "shots", where, rows)


def check_result_fits(
    shape: tuple[int, ...], dtype: Any, qubits: int, where: str, *, rows: int | None = None
) -> None:
    """Raise an error if the result of a measurement does not fit into memory.

    Args:
        shape: shape of the result.
        dtype: dtype of the result.
        qubits: the number of qubits of the circuit.
        where: the QNode and its line, for errors.
        rows: the batch size; None without a batch.

    Raises:
        CompileError: names the circuit, its qubits, the required and the available memory.
    """
    numbers = math.prod(shape)
    what = f"a result of {numbers} numbers, of {qubits} qubits"
    _check_size(numbers * np.dtype(dtype).itemsize, what, "wires", where, rows)


def _check_size(n_bytes: int, what: str, fewer: str, where: str, rows: int | None) -> None:
    """Raise an error if ``rows * n_bytes`` exceeds the memory of this process.

    Args:
        n_bytes: the bytes for one batch row.
        what: the object that needs the memory, for errors.
        fewer: the quantity that the user should reduce, for errors.
        where: the QNode and its line, for errors.
        rows: the batch size; None without a batch.
    """
    available = memory_of_process()
    if rows is not None:
        n_bytes, what, fewer = rows * n_bytes, f"{what}, in a batch of {rows},", f"{fewer} or rows"
    if is_symbolic_dim(n_bytes):
        # A symbolic batch size of jax.export.
        return
    if n_bytes > available:
        raise CompileError(
            f"{where}: {what} would take {format_gib(n_bytes)} of memory, and this process may "
            f"have {format_gib(available)}. Use fewer {fewer}."
        )


@dataclass(frozen=True)
class _StateTag(ValueTag):
    """Tag of ``guard_batched_state``: checks the memory when a state is batched."""

    size: int
    qubits: int
    sides: int
    shots: int
    where: str
    box: tuple[str, ...]

    def batch(self, operands: Sequence[Operand], dims: Sequence[int | None]) -> Operand:
        """Check that the batched state and its samples fit into memory, and batch the tag."""
        states = jax.typeof(operands[0])
        rows = states.size // self.size
        amplitude = self.size * states.dtype.itemsize >> self.sides * self.qubits
        check_state_fits(self.qubits, self.where, axes=self.sides, rows=rows, amplitude=amplitude)
        check_shots_fit(self.shots, self.where, rows=rows)
        return super().batch(operands, dims)


def guard_batched_state(
    state: Any, qubits: int, sides: int, shots: int, where: str, box: tuple[str, ...]
) -> Any:
    """Identity function of a state; batches that exceed the memory are an error.

    Args:
        state: state vector or density matrix.
        qubits: the number of qubits.
        sides: 1 for a state vector, 2 for a density matrix.
        shots: the number of samples drawn from the state.
        where: the QNode and its line, for errors.
        box: lines of text that describe the circuit in drawings.
    """
    return tag_value(state, mark=_StateTag(state.size, qubits, sides, shots, where, box))
