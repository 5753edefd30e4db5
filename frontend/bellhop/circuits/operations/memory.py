"""Refusing circuits that no memory of this machine holds, before anything is allocated for them.

Linux promises memory that it does not have, and ends the process when it is used.
"""

import math
import os
from typing import Any

import numpy as np

from bellhop.errors import CompileError

# Bytes.
_AMPLITUDE, _NUMBER = 16, 8


def check_state_fits(qubits: int, where: str, *, axes: int = 1, rows: int | None = None) -> None:
    """Refuse a state that takes more memory than there is.

    Args:
        qubits: how many it has.
        where: the QNode and its line.
        axes: two for a density matrix.
        rows: how many there are in a batch.

    Raises:
        CompileError: names the circuit, its qubits, the memory that it takes and what there is.
    """
    what = "the state" if axes == 1 else "a density matrix"
    what += f" of {qubits} qubits"
    if rows is not None:
        what += f", in a batch of {rows},"
    _check((rows or 1) * _AMPLITUDE << axes * qubits, what, "wires", where)


def check_shots_fit(shots: int, where: str) -> None:
    """Refuse a number of shots, of which one number each takes more memory than there is.

    Raises:
        CompileError: names the circuit, its shots, the memory that they take and what there is.
    """
    _check(_NUMBER * shots, f"{shots} shots", "shots", where)


def check_result_fits(shape: tuple[int, ...], dtype: Any, qubits: int, where: str) -> None:
    """Refuse a measurement whose result takes more memory than there is.

    Raises:
        CompileError: names the circuit, its qubits, the memory that it takes and what there is.
    """
    numbers = math.prod(shape)
    what = f"a result of {numbers} numbers, of {qubits} qubits,"
    _check(numbers * np.dtype(dtype).itemsize, what, "wires", where)


def _check(takes: int, what: str, fewer: str, where: str) -> None:
    there_is = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
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
