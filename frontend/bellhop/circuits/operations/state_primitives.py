"""The primitives that change the state of a circuit: gates, mid-circuit measurements, restarts.

All take the handle of the state, ``uint32[2]``, and return the handle of the state after them, so
that data dependence is their order.  In a ``batch``, parameters may have a leading axis of rows.
"""

import enum
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import mlir

from bellhop.compiler.context import allow_our_dialects, lowering_state
from bellhop_mlir.dialects import quantum
from bellhop_mlir.dialects._precision import as_double
from bellhop_mlir.dialects.gate import Gate
from bellhop_mlir.transforms.circuits.fuse_gates import encode

# The offsets of parameters without a derivative, and of those that are the last of all, in
# runtime/contract.toml.
NOT_DIFFERENTIABLE = -1
_LAST = -2

# A longer run is written as a table at once, as fuse-gates makes one of it: to build, verify and
# erase an operation for each gate took a fifth of the first call of a circuit of thousands.
_MOST_TO_READ = 100

HANDLE = ShapedArray((2,), np.dtype(np.uint32))
HANDLE_STRUCT = jax.ShapeDtypeStruct(HANDLE.shape, HANDLE.dtype)


class Amplitudes(enum.Enum):
    """Whether a gate prepares the state from its parameters.

    Values:
        NONE: it does not.
        GIVEN: it does.
        DIFFERENTIATED: likewise, and these are the last of the circuit's parameters.
    """

    NONE = enum.auto()
    GIVEN = enum.auto()
    DIFFERENTIATED = enum.auto()


class GateOperands(NamedTuple):
    """The operands of ``gates``.

    Attributes:
        handle: the handle of the state.
        params: f64[n]; of a loop of gates f64[most * n].
        offset: i32[], where they begin among the parameters of the circuit.
        wires: that the program computes, i32[m]; of a loop of gates i32[most * m].
        n_iterations: of a loop of gates, i32[]; None of gates that are applied once.
    """

    handle: Any
    params: Any
    offset: Any
    wires: Any
    n_iterations: Any = None


# gates: ``GateOperands`` -> handle
gates_p = Primitive("quantum_gates")
# mid_measure: handle, wire i32[] -> handle, outcome bool[]
mid_measure_p = Primitive("quantum_mid_measure")
mid_measure_p.multiple_results = True
# restart: handle -> handle, more bool[], counts bool[]
restart_p = Primitive("quantum_restart")
restart_p.multiple_results = True


@gates_p.def_abstract_eval
def _gates_aval(*_: Any, **__: Any) -> ShapedArray:
    return HANDLE


@mid_measure_p.def_abstract_eval
def _mid_measure_aval(*_: Any, **__: Any) -> list[ShapedArray]:
    return [HANDLE, ShapedArray((), np.dtype(bool))]


@restart_p.def_abstract_eval
def _restart_aval(*_: Any) -> list[ShapedArray]:
    return [HANDLE, *2 * [ShapedArray((), np.dtype(bool))]]


def _gates_lower(
    ctx: Any, *operands: Any, gates: tuple[Gate, ...], amplitudes: Amplitudes, **_: Any
) -> Any:
    allow_our_dialects(ctx)
    state, params, offset, wires, n_iterations = GateOperands(*operands)
    if amplitudes is Amplitudes.DIFFERENTIATED:
        offset = mlir.ir_constant(np.int32(_LAST))
    if not lowering_state().records:
        # Nobody asks where the parameters stand, so loops need not count them.
        offset = mlir.ir_constant(np.int32(NOT_DIFFERENTIABLE))
    if n_iterations is not None:
        return [quantum.gates(state, [params, offset, wires, n_iterations], *encode(gates))]
    params = as_double(params)
    if len(gates) > _MOST_TO_READ:
        return [quantum.gates(state, [params, offset, wires], *encode(gates))]
    for gate in gates:
        state = quantum.gate(state, params, offset, wires, gate)
    return [state]


def _mid_measure_lower(ctx: Any, state: Any, wire: Any, **static: Any) -> Any:
    allow_our_dialects(ctx)
    return quantum.mid_measure([state, wire], **static)


def _restart_lower(ctx: Any, state: Any) -> Any:
    allow_our_dialects(ctx)
    return quantum.restart([state])


mlir.register_lowering(gates_p, _gates_lower, cacheable=False)
mlir.register_lowering(mid_measure_p, _mid_measure_lower, cacheable=False)
mlir.register_lowering(restart_p, _restart_lower, cacheable=False)
