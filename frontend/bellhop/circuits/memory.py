"""Refusing circuits that no memory of this machine holds, before anything is allocated for them.

Linux promises memory that it does not have, and ends the process when it is used.
"""

import math
import os
from typing import Any

import numpy as np
from jax.export import is_symbolic_dim

from bellhop.errors import CompileError

# Bytes.
_AMPLITUDE, _NUMBER = 16, 8


def check_state_fits(
    qubits: int,
    where: str,
    *,
    axes: int = 1,
    rows: int | None = None,
    amplitude: int = _AMPLITUDE,
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
    _check(amplitude << axes * qubits, f"{what} of {qubits} qubits", "wires", where, rows)


def check_shots_fit(shots: int, where: str, *, rows: int | None = None) -> None:
    """Refuse a number of shots, of which one number each takes more memory than there is.

    Args:
        shots: how many there are.
        where: the QNode and its line.
        rows: how many circuits there are in a batch, each of these shots.

    Raises:
        CompileError: names the circuit, its shots, the memory that they take and what there is.
    """
    _check(_NUMBER * shots, f"{shots} shots", "shots", where, rows)


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
    _check(numbers * np.dtype(dtype).itemsize, what, "wires", where, rows)


def _check(takes: int, what: str, fewer: str, where: str, rows: int | None) -> None:
    there_is = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if rows is not None:
        takes, what, fewer = rows * takes, f"{what}, in a batch of {rows},", f"{fewer} or rows"
    if is_symbolic_dim(takes):
        # Rows that jax.export leaves open.
        return
    if takes > there_is:
        raise CompileError(
            f"{where}: {what} would take {_in_gib(takes)} of memory, and this machine has "
            f"{_in_gib(there_is)}. Use fewer {fewer}."
        )


def _in_gib(size: int) -> str:
    # Of numbers that no float holds, too.
    exponent = size.bit_length() - 1 - 30
    if exponent > 60:
        return f"2**{exponent} GiB"
    return f"{math.ldexp(size, -30):.4g} GiB"
