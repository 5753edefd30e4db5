"""The only module that imports jaxlib's MLIR bindings.

``mlir-python-bindings`` on PyPI is an empty placeholder; the bindings of the MLIR
that XLA consumes come with jaxlib.  The private names, and why no public one serves:

* ``jaxlib.mlir._mlir_libs._mlir.register_dialect`` / ``register_operation``:
  attach Python views to operations; ``jaxlib.mlir.ir`` does not export them.
* ``jaxlib.mlir._mlir_libs._mlir.globals``: the search path for Python modules of dialects, which
  no public function sets.
"""

from jax.extend.mlir.dialects import func, stablehlo
from jax.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs._mlir import globals as _globals
from jaxlib.mlir._mlir_libs._mlir import register_dialect, register_operation
from jaxlib.mlir.dialects.stablehlo import TokenType

__all__ = [
    "TokenType",
    "func",
    "ir",
    "make_context",
    "register_dialect",
    "register_operation",
    "stablehlo",
]

# Before jaxlib creates a view of an operation, it imports the module of its dialect, and searches
# each time if there is none: 57 us for an operation.
_globals.append_dialect_search_prefix("bellhop_mlir.dialects")


def make_context() -> ir.Context:
    """Create an MLIR context for modules with JAX's and Bellhop's dialects.

    The context allows unregistered dialects, since MLIR does not know the operations of the
    dialects ``callback`` and ``quantum``.
    """
    context = make_ir_context()
    context.allow_unregistered_dialects = True
    return context
