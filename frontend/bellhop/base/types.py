"""Type aliases that several packages use.

The tracer of an array counts as that array, as in JAX's own annotations.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, TypeAlias

import jax
from jax.core import AbstractValue
from jax.interpreters import mlir
from jax.interpreters.mlir import ir

from bellhop_runtime import DTYPES

#: A value of a program: an operand or result of a primitive.
Operand: TypeAlias = jax.Array
#: The handle of a circuit's state, u32[2].
Handle: TypeAlias = jax.Array
#: The label of a wire, or a traced wire index.
Wire: TypeAlias = Hashable | jax.Array
#: A nested container of arrays and numbers that JAX can flatten.
PyTree: TypeAlias = Any
#: The arguments of a user's function.
Args: TypeAlias = tuple[PyTree, ...]
Kwargs: TypeAlias = Mapping[str, PyTree]
#: The type of a value of a program.
Aval: TypeAlias = AbstractValue


def to_aval(type_: ir.Type) -> jax.core.ShapedArray:
    """Return the abstract value of an MLIR tensor type."""
    tensor = ir.RankedTensorType(type_)
    dtypes = {str(mlir.dtype_to_ir_type(dtype)): dtype for dtype in DTYPES}
    return jax.core.ShapedArray(tuple(tensor.shape), dtypes[str(tensor.element_type)])


def to_structs(typed: Iterable[Any]) -> list[jax.ShapeDtypeStruct]:
    """Return a `ShapeDtypeStruct` for each object with `shape` and `dtype`."""
    return [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in typed]


def unwrap_key_data(value: Any) -> Any:
    """Return the uint32 data of a typed random key; return other values unchanged.

    Args:
        value: any value; a key array of shape [...] gives data of shape [..., n].
    """
    if not isinstance(value, jax.Array):
        return value
    is_key = jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)
    return jax.random.key_data(value) if is_key else value
