"""Types of MLIR as JAX's abstract values."""

import jax
from jax.interpreters import mlir
from jax.interpreters.mlir import ir

from bellhop_runtime import DTYPES


def aval_of(type_: ir.Type) -> jax.core.ShapedArray:
    """Return the abstract value of a tensor type."""
    tensor = ir.RankedTensorType(type_)
    dtypes = {str(mlir.dtype_to_ir_type(dtype)): dtype for dtype in DTYPES}
    return jax.core.ShapedArray(tuple(tensor.shape), dtypes[str(tensor.element_type)])
