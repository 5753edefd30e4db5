"""``pack``: a primitive that stacks scalars to a vector.

``pack([a, b, c])`` is traced to one equation, and ``jnp.stack([a, b, c])`` to four::

    d = pack a b c                    d = broadcast_in_dim[shape=(1,)] a
                                      e = broadcast_in_dim[shape=(1,)] b
                                      f = broadcast_in_dim[shape=(1,)] c
                                      g = concatenate[dimension=0] d e f

A circuit may have thousands of parameters.  Tracing and lowering the equations of ``jnp.stack``
takes as long as all gates of the circuit.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.interpreters.mlir import ir

from bellhop.base.types import Aval, Operand

# real[], real[], ... -> real[n]
pack_p = Primitive("pack")


def stack_scalars(scalars: Sequence[Any]) -> jax.Array:
    """Stack one or more scalars of the same dtype to a vector."""
    return pack_p.bind(*scalars)


pack_p.def_impl(lambda *scalars: jnp.stack(scalars))


@pack_p.def_abstract_eval
def _abstract_eval(*scalars: Aval) -> ShapedArray:
    """Return the type of the vector that ``pack`` makes."""
    return ShapedArray((len(scalars),), scalars[0].dtype)


def _transpose(cotangent: Operand, *scalars: Operand) -> list[Any]:
    """Transpose ``pack``: return the cotangent of each scalar."""
    return [cotangent[i] for i in range(len(scalars))]


ad.deflinear2(pack_p, _transpose)


def _batch(scalars: Sequence[Any], dims: Sequence[Any]) -> tuple[Any, int]:
    """Batch ``pack``: stack the scalars of each batch element to ``[batch, n]``."""
    size = next(x.shape[d] for x, d in zip(scalars, dims, strict=True) if d is not None)
    columns = [jnp.broadcast_to(scalar, (size,)) for scalar in scalars]
    return jnp.stack(columns, axis=1), 0


batching.primitive_batchers[pack_p] = _batch


def _lower(ctx: mlir.LoweringRuleContext, *scalars: ir.Value) -> list[Any]:
    """Lower ``pack`` to one reshape for each scalar and one concatenation.

    The operands are rank-0 tensors of the same element type.
    """
    element = ir.RankedTensorType(scalars[0].type).element_type
    one = ir.RankedTensorType.get([1], element)
    elements = [
        ir.Operation.create("stablehlo.reshape", results=[one], operands=[scalar]).result
        for scalar in scalars
    ]
    if len(elements) == 1:
        return elements
    packed = ir.Operation.create(
        "stablehlo.concatenate",
        results=[ir.RankedTensorType.get([len(scalars)], element)],
        operands=elements,
        attributes={"dimension": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)},
    )
    return [packed.result]


mlir.register_lowering(pack_p, _lower)
