"""Infer from the traced equations whether a complex value is always real or imaginary.

``1j * x`` is imaginary for every real ``x``; nothing is known about a complex argument.  A sum of
Pauli words is Hermitian if its coefficients are real.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pennylane as qml

from bellhop._jax.jaxprs import find_equation, unwrap_tracer
from bellhop.circuits.ir.wires import is_dynamic

# Limits the time of the search through equations.
_MAX_DEPTH = 20

_LINEAR = frozenset((
    "broadcast_in_dim", "conj", "convert_element_type", "copy", "dynamic_slice", "gather", "neg",
    "reduce_sum", "reshape", "rev", "slice", "squeeze", "transpose",
))  # fmt: skip


class NonzeroParts(NamedTuple):
    """Whether the real and the imaginary part of a value may be nonzero.

    Attributes:
        real: False if the real part is known to be zero.
        imaginary: False if the imaginary part is known to be zero.
    """

    real: bool
    imaginary: bool


_BOTH = NonzeroParts(True, True)


def find_nonzero_parts(number: Any, depth: int = _MAX_DEPTH) -> NonzeroParts:
    """Infer whether the real and the imaginary part of a value may be nonzero.

    The equations that compute a tracer are searched: ``1j * x`` with real ``x`` has no real part.

    Args:
        number: a number, an array or a tracer.
        depth: how many nested equations to search; beyond them, both parts may be nonzero.

    Returns:
        for each part, False if it is certainly zero, else True. The real part of a value with a
        real dtype always counts as possibly nonzero.
    """
    if not jnp.iscomplexobj(number):
        return NonzeroParts(True, False)
    value = unwrap_tracer(number)
    if not is_dynamic(value):
        return NonzeroParts(bool(np.any(np.real(value))), bool(np.any(np.imag(value))))
    eqn, _ = find_equation(value)
    if eqn is None or not depth:
        return _BOTH
    name = eqn.primitive.name
    operands = (find_nonzero_parts(each, depth - 1) for each in eqn.in_tracers)
    if name in _LINEAR:
        return next(operands)
    if name not in ("mul", "div", "add", "add_any", "sub", "complex"):
        return _BOTH
    one, other = operands
    if name in ("mul", "div"):
        return NonzeroParts(
            (one.real and other.real) or (one.imaginary and other.imaginary),
            (one.real and other.imaginary) or (one.imaginary and other.real),
        )
    if name == "complex":
        first = unwrap_tracer(eqn.in_tracers[0])
        return NonzeroParts(is_dynamic(first) or bool(np.any(first)), True)
    return NonzeroParts(one.real or other.real, one.imaginary or other.imaginary)


def is_hermitian(op: Any) -> bool:
    """Return whether an operator is known to be Hermitian for all values of its tracers.

    False means not known: the operator may be Hermitian.

    Args:
        op: PennyLane operator.
    """
    if op.pauli_rep is not None:
        return not any(find_nonzero_parts(factor).imaginary for factor in op.pauli_rep.values())
    if isinstance(op, qml.ops.Exp | qml.ops.SProd):
        factor = op.coeff if isinstance(op, qml.ops.Exp) else op.scalar
        return not find_nonzero_parts(factor).imaginary and is_hermitian(op.base)
    if isinstance(op, qml.ops.CompositeOp):
        commute = isinstance(op, qml.ops.Sum) or len(op.wires) == sum(len(o.wires) for o in op)
        return commute and all(map(is_hermitian, op))
    return op.is_verified_hermitian
