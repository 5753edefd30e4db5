"""Refuses batches of circuits in the program whose states need more memory than there is.

A state is an array of the program, so ``jax.vmap`` has one for each row.  How many rows there are
is not known while a circuit is traced.  So a mark on the state checks when it is batched.  It also
says which circuit the state is of, and why that is part of the program.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax

from bellhop.base.types import Operand
from bellhop.circuits.memory import check_shots_fit, check_state_fits
from bellhop.control_flow.marks import Mark, marked


@dataclass(frozen=True)
class _Held(Mark):
    size: int
    qubits: int
    sides: int
    shots: int
    where: str
    box: tuple[str, ...]

    def batched(self, operands: Sequence[Operand], dims: Sequence[int | None]) -> Operand:
        states = jax.typeof(operands[0])
        rows = states.size // self.size
        amplitude = self.size * states.dtype.itemsize >> self.sides * self.qubits
        check_state_fits(self.qubits, self.where, axes=self.sides, rows=rows, amplitude=amplitude)
        check_shots_fit(self.shots, self.where, rows=rows)
        return super().batched(operands, dims)


def held(state: Any, qubits: int, sides: int, shots: int, where: str, box: tuple[str, ...]) -> Any:
    """Return a state, of which a batch is refused that takes more memory than there is.

    Args:
        state: of a circuit.
        qubits: how many it has.
        sides: two for a density matrix.
        shots: how many numbers are drawn from it.
        where: the QNode and its line, for errors.
        box: what pictures say of the circuit.
    """
    return marked(state, mark=_Held(state.size, qubits, sides, shots, where, box))
