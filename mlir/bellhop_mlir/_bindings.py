"""The only door to jaxlib's MLIR bindings.

``mlir-python-bindings`` on PyPI is an empty placeholder; the bindings of the MLIR
that XLA consumes come with jaxlib.  The private names, and why no public one serves:

* ``jaxlib.mlir._mlir_libs._mlir.register_dialect`` / ``register_operation``:
  attach Python views to operations; ``jaxlib.mlir.ir`` does not export them.
"""

from jax.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs._mlir import register_dialect, register_operation

__all__ = [
    "ir",
    "make_context",
    "register_dialect",
    "register_operation",
]


def make_context() -> ir.Context:
    """Return a context with JAX's dialects that lets ours in unregistered."""
    context = make_ir_context()
    context.allow_unregistered_dialects = True
    return context
