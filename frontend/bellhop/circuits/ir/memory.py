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
from bellhop.control_flow.tagged_values import ValueTag
from bellhop.devices.device_memory import (
    format_gib,
    memory_of_process,
    min_device_memory,
    required_device_count,
)
from bellhop.errors import CompileError

# Bytes.
_AMPLITUDE_BYTES, _NUMBER_BYTES = 16, 8


# Each device holds at least its shard before and after a gate. The exact amount is known only after
# compilation (``compiler/regions.py``), which is slower than this lower bound.
_STATES_AT_ONCE = 2


@dataclass(frozen=True)
class MemoryCheck:
    """Checks that states, results and shots of a circuit fit into memory.

    The checks run at compile time. Each check raises a ``CompileError`` that names the circuit, its
    qubits or shots, the required and the available memory.

    Attributes:
        where: the QNode's name and line, for error messages.
        rows: the batch size, by which the required memory is multiplied (``check_shards`` ignores
            it); None without a batch.
    """

    where: str
    rows: int | None = None

    def check_state(self, qubits: int, *, axes: int = 1, amplitude: int = _AMPLITUDE_BYTES) -> None:
        """Raise an error if a state needs more memory than this process may use.

        Args:
            qubits: the number of qubits.
            axes: the number of axes of the state: 1 for a state vector, 2 for a density matrix.
            amplitude: bytes of one amplitude.
        """
        noun = "the state" if axes == 1 else "a density matrix"
        self._check_size(amplitude << axes * qubits, f"{noun} of {qubits} qubits", "wires")

    def check_shards(
        self, qubits: int, *, devices: Sequence[jax.Device], n_shards: int, amplitude: int
    ) -> None:
        """Raise an error if a sharded state certainly exceeds its devices' memory.

        Each device must hold at least its shard of the state before and after a gate.

        Args:
            qubits: the number of qubits.
            devices: the devices of the mesh; the smallest memory among them counts.
            n_shards: the number of shards of the state.
            amplitude: bytes of one amplitude.
        """
        required = _STATES_AT_ONCE * amplitude << qubits
        available = min_device_memory(devices)
        if required <= available * n_shards:
            return
        raise CompileError(
            f"{self.where}: the states of {qubits} qubits before and after a gate take "
            f"{format_gib(required // n_shards)} of memory on each of {n_shards} devices, expected "
            f"at most {format_gib(available)}, the memory of a device. Use "
            f"{required_device_count(required, available)} devices of this size, fewer wires or "
            "single precision."
        )

    def check_shots(self, shots: int) -> None:
        """Raise an error if 8 bytes for each shot and batch row do not fit into memory."""
        self._check_size(_NUMBER_BYTES * shots, f"{shots} shots", "shots")

    def check_result(self, shape: tuple[int, ...], dtype: Any, qubits: int) -> None:
        """Raise an error if the result of a measurement does not fit into memory.

        ``qubits``, the number of qubits of the circuit, appears in the error message.
        """
        numbers = math.prod(shape)
        what = f"a measurement result of {numbers} numbers ({qubits} qubits)"
        self._check_size(numbers * np.dtype(dtype).itemsize, what, "wires")

    def _check_size(self, n_bytes: int, what: str, fewer: str) -> None:
        """Raise an error if ``rows * n_bytes`` exceeds the memory of this process.

        A batch with a symbolic size (``jax.export``) is not checked.

        Args:
            n_bytes: the bytes for one batch row.
            what: the object that needs the memory, such as "the state of 40 qubits".
            fewer: the quantity that the user should reduce, such as "wires".
        """
        available, rows = memory_of_process(), self.rows
        if rows is not None:
            n_bytes, what = rows * n_bytes, f"{what} in a batch of {rows}"
            fewer = f"{fewer} or a smaller batch"
        if is_symbolic_dim(n_bytes):
            # A symbolic batch size of jax.export.
            return
        if n_bytes > available:
            raise CompileError(
                f"{self.where}: {what} would take {format_gib(n_bytes)} of memory, and this "
                f"process may have {format_gib(available)}. Use fewer {fewer}."
            )

    def guard_batched_state(
        self, state: Any, qubits: int, sides: int, shots: int, box: tuple[str, ...]
    ) -> Any:
        """Return ``state`` through an identity equation whose batching rule checks the memory.

        Nothing is checked now. If ``jax.vmap`` batches the state, it raises a ``CompileError`` if
        the batch of states, or the samples of all states in the batch, exceed the memory of this
        process.

        Args:
            state: array of all amplitudes, or of all entries of a density matrix.
            qubits: the number of qubits.
            sides: the number of axes of the state: 1 for a state vector, 2 for a density matrix.
            shots: the number of samples drawn from the state.
            box: lines of text that describe the circuit in drawings.
        """
        return _StateTag(state.size, qubits, sides, shots, self.where, box).tag(state)


@dataclass(frozen=True)
class _StateTag(ValueTag):
    """Tag of a state, which checks the memory when ``jax.vmap`` batches the state.

    A tag is a parameter of an identity equation and defines the equation's rules, such as batching.
    ``MemoryCheck.guard_batched_state`` applies this tag.

    Attributes:
        size: the number of entries of the state without a batch.
        qubits: the number of qubits.
        sides: the number of axes of the state: 1 for a state vector, 2 for a density matrix.
        shots: the number of samples drawn from the state.
        where: the QNode's name and line, for error messages.
        box: lines of text that describe the circuit in drawings.
    """

    size: int
    qubits: int
    sides: int
    shots: int
    where: str
    box: tuple[str, ...]

    def batch(self, operands: Sequence[Operand], dims: Sequence[int | None]) -> Operand:
        """Check that a batch of states and samples fits into memory; return the states.

        ``jax.vmap`` calls this rule when it batches a state that has this tag. The returned batch
        is tagged too.

        Args:
            operands: the batched state alone.
            dims: its batch axis.

        Raises:
            CompileError: if the memory is not sufficient.
        """
        states = jax.typeof(operands[0])
        rows = states.size // self.size
        amplitude = self.size * states.dtype.itemsize >> self.sides * self.qubits
        check = MemoryCheck(self.where, rows)
        check.check_state(self.qubits, axes=self.sides, amplitude=amplitude)
        check.check_shots(self.shots)
        return super().batch(operands, dims)
