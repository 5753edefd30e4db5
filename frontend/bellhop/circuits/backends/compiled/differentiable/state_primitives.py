"""The primitives that circuits are made of, but for what they measure: gates, and other calls.

What changes the state takes its handle, ``uint32[2]``, and returns the handle of the state after
it, so that data dependence is the order.

Gates have a primitive of their own, since JAX differentiates and batches by their parameters.  All
else that the runtime does is a call, such as ``call("mid_measure", [handle, wire], HANDLE, BOOL)``:
::

    state outcome = quantum_call[operation=mid_measure ...] state wire

which is lowered to the operation of this name of the quantum dialect
(``bellhop_mlir.dialects.quantum``).
"""

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import JaxprEqn, Primitive
from jax.interpreters import ad, batching, mlir

from bellhop._jax.private import ir_type
from bellhop.base.types import Handle, Operand
from bellhop.circuits.ir.precision import real_type
from bellhop.compiler.lowering_context import allow_bellhop_dialects, lowering_state
from bellhop_mlir.dialects import quantum
from bellhop_mlir.dialects.gate import Gate, encode_gates

# The offsets of parameters without a derivative, and of those that are the last of all, in
# runtime/contract.toml.
NOT_DIFFERENTIABLE = -1
_LAST_OFFSET = -2

HANDLE = ShapedArray((2,), np.dtype(np.uint32))
HANDLE_STRUCT = jax.ShapeDtypeStruct(HANDLE.shape, HANDLE.dtype)
BOOL = ShapedArray((), np.dtype(bool))
INTEGER = ShapedArray((), np.dtype(np.int32))


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
        params: f64[n]; of a loop of gates f64[most * n].  Of amplitudes, an array of any real or
            complex type, whose elements are one or two parameters each.
        offset: i32[], where they begin among the parameters of the circuit.
        wires: that the program computes, i32[m]; of a loop of gates i32[most * m].
        n_iterations: of a loop of gates, i32[]; None of gates that are applied once.
    """

    handle: Any
    params: Any
    offset: Any
    wires: Any
    n_iterations: Any = None


# gates: ``GateOperands`` -> handle; in a ``batch``, parameters may have a leading axis of rows
gates_p = Primitive("quantum_gates")
gates_p.def_abstract_eval(lambda *_, **__: HANDLE)
# call: the operands of an operation -> its results
_call_p = Primitive("quantum_call")
_call_p.multiple_results = True
_call_p.def_abstract_eval(lambda *_, results, **__: list(results))


def _gates_lower(
    ctx: Any, *operands: Any, gates: tuple[Gate, ...], amplitudes: Amplitudes, **_: Any
) -> Any:
    allow_bellhop_dialects(ctx)
    state, params, offset, wires, n_iterations = GateOperands(*operands)
    if amplitudes is Amplitudes.DIFFERENTIATED:
        offset = mlir.ir_constant(np.int32(_LAST_OFFSET))
    if not lowering_state().records:
        # Nobody asks where the parameters stand, so loops need not count them.
        offset = mlir.ir_constant(np.int32(NOT_DIFFERENTIABLE))
    if amplitudes is Amplitudes.NONE:
        params = quantum.to_double(params)
    of_loop = [] if n_iterations is None else [n_iterations]
    return quantum.gates([state, params, offset, wires, *of_loop], **encode_gates(gates))


def call(
    operation: str, operands: Sequence[Any], *results: ShapedArray, **attributes: Any
) -> list[Any]:
    """Call the runtime, and return the results.

    Args:
        operation: the name of one of the quantum dialect.
        operands: its operands.
        results: the types of its results.
        attributes: its attributes.
    """
    return _call_p.bind(*operands, operation=operation, results=results, **attributes)


def restart_run(handle: Handle) -> list[Any]:
    """End a run; return the handle of the next, whether there is to be one, and if this counts."""
    return call("restart", [handle], HANDLE, BOOL, BOOL)


def is_call(eqn: JaxprEqn, operation: str = "") -> bool:
    """Tell whether an equation is a call of an operation, or of any."""
    return eqn.primitive is _call_p and operation in ("", eqn.params["operation"])


def is_handle(aval: Any) -> bool:
    """Tell whether values of a type are handles of a state."""
    return aval.shape == HANDLE.shape and aval.dtype == HANDLE.dtype


def has_handle_operand(eqn: JaxprEqn) -> bool:
    """Tell whether an equation reads from the session of a circuit."""
    return any(is_handle(atom.aval) for atom in eqn.invars)


def to_rows(operand: Any, dim: int | None, size: int) -> Any:
    """Return the rows of an operand for all elements of a mapped axis, one after another.

    Args:
        operand: its rows are along the first axis, but for the mapped one.
        dim: the mapped axis; None where the elements share the rows.
        size: the size of the mapped axis.
    """
    if dim is None:
        each = jnp.broadcast_to(operand, (size, *operand.shape))
    else:
        each = jnp.moveaxis(operand, dim, 0)
    return each.reshape(-1, *each.shape[2:])


def _call_jvp(primals: Sequence[Operand], tangents: Sequence[Any], **static: Any) -> Any:
    results = _call_p.bind(*primals, **static)
    dots = [ad.Zero(jax.typeof(result).to_tangent_aval()) for result in results]
    # Real results are those of linear maps, which are differentiated as such.
    assert not any(type(dot) is not ad.Zero for dot in tangents) or not any(map(_is_real, results))
    return results, dots


def _call_batch(
    operands: Sequence[Operand], dims: Sequence[int | None], *, results: Any, **static: Any
) -> Any:
    """Make one call for all elements: real operands and results have an axis of rows in front.

    All elements have the circuit in common, so nothing else is mapped.
    """
    both = list(zip(operands, dims, strict=True))
    assert all(dim is None or _is_real(operand) for operand, dim in both)
    size = next(operand.shape[dim] for operand, dim in both if dim is not None)
    rows = [to_rows(x, dim, size) if _is_real(x) else x for x, dim in both]
    of_all = [ShapedArray((size * each.shape[0], *each.shape[1:]), each.dtype) for each in results]
    found = _call_p.bind(*rows, results=tuple(of_all), **static)
    split = [x.reshape(size, *each.shape) for x, each in zip(found, results, strict=True)]
    return split, [0] * len(split)


def _is_real(value: Any) -> bool:
    return value.dtype == real_type()


def _call_lower(
    ctx: Any, *operands: Any, operation: str, results: Sequence[ShapedArray], **attributes: Any
) -> Any:
    allow_bellhop_dialects(ctx)
    signature = quantum.OPERATIONS[f"quantum.{operation}"]
    forms = zip(signature.results, results, strict=True)
    open_types = [ir_type(ctx, aval) for form, aval in forms if "?" in form]
    return signature(operands, open_types, **attributes)


ad.primitive_jvps[_call_p] = _call_jvp
batching.primitive_batchers[_call_p] = _call_batch
mlir.register_lowering(gates_p, _gates_lower, cacheable=False)
mlir.register_lowering(_call_p, _call_lower, cacheable=False)
