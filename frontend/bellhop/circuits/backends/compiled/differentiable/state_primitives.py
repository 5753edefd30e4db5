"""Define the primitives of a circuit's gates, and of calls of the runtime.

An operation that changes the state takes the state's handle, ``uint32[2]``, and returns the handle
of the state after it, so data dependences order the operations.

Gates have a primitive of their own, since JAX differentiates and batches by their parameters.  All
other operations of the runtime are calls, such as ``call("mid_measure", [handle, wire], HANDLE,
BOOL)``: ::

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
from bellhop.circuits.ir.precision import Precision
from bellhop.compiler.lowering_context import allow_bellhop_dialects, lowering_state
from bellhop.jaxprs.symbolic_zero import make_symbolic_zero
from bellhop_mlir.dialects import quantum
from bellhop_mlir.dialects.gate import Gate, encode_gates

# Special offsets of runtime/contract.toml: for parameters without a derivative, and for parameters
# that come last in the parameter vector.
NOT_DIFFERENTIABLE = -1
_LAST_OFFSET = -2

HANDLE = ShapedArray((2,), np.dtype(np.uint32))
HANDLE_STRUCT = jax.ShapeDtypeStruct(HANDLE.shape, HANDLE.dtype)
BOOL = ShapedArray((), np.dtype(bool))
INTEGER = ShapedArray((), np.dtype(np.int32))


class Amplitudes(enum.Enum):
    """Whether a gate equation prepares the state from its parameters.

    Values:
        NONE: the gate does not prepare the state.
        GIVEN: the gate prepares the state from its parameters.
        DIFFERENTIATED: as GIVEN, and the gate's parameters are the last in the circuit's
            parameter vector, so that the circuit is differentiated by them.
    """

    NONE = enum.auto()
    GIVEN = enum.auto()
    DIFFERENTIATED = enum.auto()


class GateOperands(NamedTuple):
    """The operands of the ``quantum_gates`` primitive, by name.

    Fields may also hold other values per operand, such as tangents or batch axes.

    Attributes:
        handle: the handle of the state.
        params: parameters, f64[n]; for a loop of gates f64[most * n], for at most `most`
            iterations. Amplitudes are an array of any real or complex dtype, whose elements are one
            or two parameters each.
        offset: i32[], index of the first parameter among the parameters of the circuit.
        wires: traced wires, i32[m]; for a loop of gates i32[most * m].
        n_iterations: i32[], trip count of a loop of gates; None for gates that are applied once.
    """

    handle: Any
    params: Any
    offset: Any
    wires: Any
    n_iterations: Any = None


# gates: ``GateOperands`` -> handle.  In a batch, parameters may have a leading axis of rows.
gates_p = Primitive("quantum_gates")
gates_p.def_abstract_eval(lambda *_, **__: HANDLE)
# call: the operands of an operation -> its results
_call_p = Primitive("quantum_call")
_call_p.multiple_results = True
_call_p.def_abstract_eval(lambda *_, results, **__: list(results))


def _gates_lower(
    ctx: Any, *operands: Any, gates: tuple[Gate, ...], amplitudes: Amplitudes, **_: Any
) -> Any:
    """Lower gates to ``quantum.gates``; return the MLIR value of the new handle.

    The operand ``offset`` counts only if the runtime records gates for derivatives.
    """
    allow_bellhop_dialects(ctx)
    state, params, offset, wires, n_iterations = GateOperands(*operands)
    if amplitudes is Amplitudes.DIFFERENTIATED:
        offset = mlir.ir_constant(np.int32(_LAST_OFFSET))
    if not lowering_state().records:
        # The offset matters only for derivatives.  Without it, loops need not count parameters.
        offset = mlir.ir_constant(np.int32(NOT_DIFFERENTIABLE))
    if amplitudes is Amplitudes.NONE:
        params = quantum.to_double(params)
    of_loop = [] if n_iterations is None else [n_iterations]
    return quantum.gates([state, params, offset, wires, *of_loop], **encode_gates(gates))


def call(
    operation: str, operands: Sequence[Any], *results: ShapedArray, **attributes: Any
) -> list[Any]:
    """Bind a call of a runtime operation, and return its results.

    For instance ``call("mid_measure", [handle, wire], HANDLE, BOOL, reset=False, ...)``.

    Args:
        operation: the name of an operation of the quantum dialect, without the prefix ``quantum.``.
        operands: the arrays that the operation takes.
        *results: the types of its results.
        **attributes: the attributes of the operation.
    """
    return _call_p.bind(*operands, operation=operation, results=results, **attributes)


def restart_run(handle: Handle) -> list[Any]:
    """Bind the call that ends an execution of a circuit and starts the next execution.

    Args:
        handle: the handle of the state at the end of the execution.

    Returns:
        the handle of the next execution's state, whether there is to be a next execution, and
        whether the ended execution counts, because all its postselections held.
    """
    return call("restart", [handle], HANDLE, BOOL, BOOL)


def is_call(eqn: JaxprEqn, operation: str = "") -> bool:
    """Return whether an equation calls a runtime operation (`call`).

    Args:
        eqn: any equation.
        operation: the name of the operation; empty for any operation.
    """
    return eqn.primitive is _call_p and operation in ("", eqn.params["operation"])


def is_handle(aval: Any) -> bool:
    """Return whether an abstract value has the type of a state handle."""
    return aval.shape == HANDLE.shape and aval.dtype == HANDLE.dtype


def has_handle_operand(eqn: JaxprEqn) -> bool:
    """Return whether an equation has an operand that is a state handle."""
    return any(is_handle(atom.aval) for atom in eqn.invars)


def to_rows(operand: Any, dim: int | None, size: int) -> Any:
    """Merge a mapped axis into an operand's leading axis of rows.

    Args:
        operand: array whose leading axis, apart from the mapped axis, is the axis of rows.
        dim: the mapped axis; None if the operand is the same for all elements.
        size: the size of the mapped axis.

    Returns:
        array ``[size * rows, ...]``; all rows of the first element come first.
    """
    if dim is None:
        each = jnp.broadcast_to(operand, (size, *operand.shape))
    else:
        each = jnp.moveaxis(operand, dim, 0)
    return each.reshape(-1, *each.shape[2:])


def _call_jvp(primals: Sequence[Operand], tangents: Sequence[Any], **static: Any) -> Any:
    """JVP rule of calls of the runtime: the results, with zero tangents.

    It asserts that a call with a tangent has no floating-point results.
    """
    results = _call_p.bind(*primals, **static)
    dots = [make_symbolic_zero(result) for result in results]
    # Calls with real operands and results are inside of a ``LinearMap``, which has its own rules.
    assert not any(type(dot) is not ad.Zero for dot in tangents) or not any(map(_is_real, results))
    return results, dots


def _call_batch(
    operands: Sequence[Operand], dims: Sequence[int | None], *, results: Any, **static: Any
) -> Any:
    """Batching rule of calls of the runtime: one call for all elements of an axis.

    Real operands and results get more rows, in their leading axis. All elements share the circuit,
    so other operands, such as handles, are never mapped, which is asserted.

    Returns:
        the results, each with the mapped axis in front, and these axes, all 0.
    """
    pairs = list(zip(operands, dims, strict=True))
    assert all(dim is None or _is_real(operand) for operand, dim in pairs)
    size = next(operand.shape[dim] for operand, dim in pairs if dim is not None)
    rows = [to_rows(x, dim, size) if _is_real(x) else x for x, dim in pairs]
    batched_avals = [
        ShapedArray((size * each.shape[0], *each.shape[1:]), each.dtype) for each in results
    ]
    batched_results = _call_p.bind(*rows, results=tuple(batched_avals), **static)
    unbatched = [
        x.reshape(size, *each.shape) for x, each in zip(batched_results, results, strict=True)
    ]
    return unbatched, [0] * len(unbatched)


def _is_real(value: Any) -> bool:
    """Return whether an array has the program's real dtype."""
    return value.dtype == Precision.real_type()


def _call_lower(
    ctx: Any, *operands: Any, operation: str, results: Sequence[ShapedArray], **attributes: Any
) -> Any:
    """Lower a call to the operation ``quantum.<operation>``; return its MLIR results."""
    allow_bellhop_dialects(ctx)
    signature = quantum.OPERATIONS[f"quantum.{operation}"]
    forms = zip(signature.results, results, strict=True)
    open_types = [ir_type(ctx, aval) for form, aval in forms if "?" in form]
    return signature(operands, open_types, **attributes)


ad.primitive_jvps[_call_p] = _call_jvp
batching.primitive_batchers[_call_p] = _call_batch
mlir.register_lowering(gates_p, _gates_lower, cacheable=False)
mlir.register_lowering(_call_p, _call_lower, cacheable=False)
