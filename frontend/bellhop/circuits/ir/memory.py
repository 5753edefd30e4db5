"""Refusing circuits that no memory of this machine holds, before anything is allocated for them.

Linux promises memory that it does not have, and ends the process when it is used.

A state in the program is an array, so ``jax.vmap`` has one for each row.  How many rows there are
is not known while a circuit is traced.  So a mark on the state checks when it is batched.  It also
says which circuit the state is of, and why that is part of the program.
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
    """Refuse a state that takes more memory than there is.

    Args:
        qubits: how many it has.
        where: the QNode and its line.
        axes: two for a density matrix.
        rows: how many there are in a batch.
        amplitude: how many bytes one takes.

    Raises:
        CompileError: names the circuit, its qubits, the memory that it takes and what there is.
    """
    what = "the state" if axes == 1 else "a density matrix"
    _check_size(amplitude << axes * qubits, f"{what} of {qubits} qubits", "wires", where, rows)


# Each device has its part, and the one that is computed from it, or more: what exactly, is known
# when the program is compiled (``compiler/regions.py``), which takes longer than to refuse it here.
_STATES_AT_ONCE = 2


def check_shards_fit(
    qubits: int, where: str, *, devices: Sequence[jax.Device], n_shards: int, amplitude: int
) -> None:
    """Refuse a state over several devices that certainly takes more memory than they have.

    Args:
        qubits: how many it has.
        where: the QNode and its line.
        devices: those of the mesh.
        n_shards: how many parts of the state there are.
        amplitude: how many bytes one takes.

    Raises:
        CompileError: names the circuit, the memory that it takes of each device, what that has, and
            how many devices would do.
    """
    takes = _STATES_AT_ONCE * amplitude << qubits
    there_is = min_device_memory(devices)
    if takes <= there_is * n_shards:
        return
    raise CompileError(
        f"{where}: the state of {qubits} qubits, and the one after a gate, would take "
        f"{format_gib(takes // n_shards)} of memory for each of {n_shards} devices, and each has "
        f"{format_gib(there_is)}. {required_device_count(takes, there_is)} such devices would "
        f"do. Use these, "
        "fewer wires or single precision."
    )


def check_shots_fit(shots: int, where: str, *, rows: int | None = None) -> None:
    """Refuse a number of shots, of which one number each takes more memory than there is.

    Args:
        shots: how many there are.
        where: the QNode and its line.
        rows: how many circuits there are in a batch, each of these shots.

    Raises:
        CompileError: names the circuit, its shots, the memory that they take and what there is.
    """
    _check_size(_NUMBER_BYTES * shots, f"{shots} shots", "shots", where, rows)


def check_result_fits(
    shape: tuple[int, ...], dtype: Any, qubits: int, where: str, *, rows: int | None = None
) -> None:
    """Refuse a measurement whose result takes more memory than there is.

    Args:
        shape: of the result.
        dtype: of its numbers.
        qubits: how many the circuit has.
        where: the QNode and its line.
        rows: how many circuits there are in a batch, each with such a result.

    Raises:
        CompileError: names the circuit, its qubits, the memory that it takes and what there is.
    """
    numbers = math.prod(shape)
    what = f"a result of {numbers} numbers, of {qubits} qubits"
    _check_size(numbers * np.dtype(dtype).itemsize, what, "wires", where, rows)


def _check_size(n_bytes: int, what: str, fewer: str, where: str, rows: int | None) -> None:
    there_is = memory_of_process()
    if rows is not None:
        n_bytes, what, fewer = rows * n_bytes, f"{what}, in a batch of {rows},", f"{fewer} or rows"
    if is_symbolic_dim(n_bytes):
        # Rows that jax.export leaves open.
        return
    if n_bytes > there_is:
        raise CompileError(
            f"{where}: {what} would take {format_gib(n_bytes)} of memory, and this process may "
            f"have {format_gib(there_is)}. Use fewer {fewer}."
        )


@dataclass(frozen=True)
class _StateTag(ValueTag):
    size: int
    qubits: int
    sides: int
    shots: int
    where: str
    box: tuple[str, ...]

    def batch(self, operands: Sequence[Operand], dims: Sequence[int | None]) -> Operand:
        states = jax.typeof(operands[0])
        rows = states.size // self.size
        amplitude = self.size * states.dtype.itemsize >> self.sides * self.qubits
        check_state_fits(self.qubits, self.where, axes=self.sides, rows=rows, amplitude=amplitude)
        check_shots_fit(self.shots, self.where, rows=rows)
        return super().batch(operands, dims)


def guard_batched_state(
    state: Any, qubits: int, sides: int, shots: int, where: str, box: tuple[str, ...]
) -> Any:
    """Return a state, of which a batch is refused that takes more memory than there is.

    Args:
        state: of a circuit.
        qubits: how many it has.
        sides: two for a density matrix.
        shots: how many numbers are drawn from it.
        where: the QNode and its line, for errors.
        box: what pictures say of the circuit.
    """
    return tag_value(state, mark=_StateTag(state.size, qubits, sides, shots, where, box))
