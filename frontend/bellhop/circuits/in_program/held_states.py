"""Refuses batches of circuits in the program whose states need more memory than there is.

A state is an array of the program, so ``jax.vmap`` has one for each row.  How many rows there are
is not known while a circuit is traced.  So a primitive marks the state, and its batching rule
checks.
"""

from collections.abc import Sequence
from typing import Any

from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from bellhop.circuits.memory import check_shots_fit, check_state_fits

# held: a state -> the same
_held_p = Primitive("quantum_held")
_held_p.def_impl(lambda state, **_: state)
_held_p.def_abstract_eval(lambda state, **_: state)
mlir.register_lowering(_held_p, lambda _, state, **__: [state])


def held(state: Any, qubits: int, sides: int, shots: int, where: str) -> Any:
    """Return a state, of which a batch is refused that takes more memory than there is.

    Args:
        state: of a circuit.
        qubits: how many it has.
        sides: two for a density matrix.
        shots: how many numbers are drawn from it.
        where: the QNode and its line, for errors.
    """
    return _held_p.bind(
        state, size=state.size, qubits=qubits, sides=sides, shots=shots, where=where
    )


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    return _held_p.bind(*primals, **params), tangents[0]


def _batch(operands: Sequence[Any], dims: Sequence[int], **params: Any) -> Any:
    (states,) = operands
    size, qubits, sides, where = (params[name] for name in ("size", "qubits", "sides", "where"))
    rows = states.size // size
    amplitude = size * states.dtype.itemsize >> sides * qubits
    check_state_fits(qubits, where, axes=sides, rows=rows, amplitude=amplitude)
    check_shots_fit(params["shots"], where, rows=rows)
    return _held_p.bind(states, **params), dims[0]


ad.primitive_jvps[_held_p] = _jvp
batching.primitive_batchers[_held_p] = _batch
