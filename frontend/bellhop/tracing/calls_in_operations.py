"""Python is not called from inside of one operation of XLA, such as a reduction."""

from jax.extend.core import Jaxpr

from bellhop._jax.patches.functions_in_operations import check_functions_in_operations
from bellhop._jax.private import JAX_CALLBACK_PRIMITIVES, equation_site
from bellhop.base.equations import iterate_equations
from bellhop.errors import CompileError

# How the names of our primitives begin that call the runtime, or hold what does.
_OURS = ("bellhop_", "quantum_")


def refuse_calls_in_operations() -> None:
    """Let reductions and scatters whose functions call Python, or run circuits, be errors."""
    check_functions_in_operations(_check)


def _check(operation: str, jaxpr: Jaxpr) -> None:
    """Refuse the function of an operation that calls Python.

    Args:
        operation: what users call the operation.
        jaxpr: the function.

    Raises:
        CompileError: naming the operation, its line, and the callback or circuit.
    """
    for eqn in iterate_equations(jaxpr):
        if eqn.primitive in JAX_CALLBACK_PRIMITIVES:
            called = f"jax.{eqn.primitive}"
        elif eqn.primitive.name.startswith(_OURS):
            called = str(eqn.params.get("target", eqn.primitive.name.replace("quantum_", "a ")))
        else:
            continue
        raise CompileError(
            f"{operation} ({equation_site() or '<unknown>'}): its function calls {called}, "
            "expected operations of XLA alone, since XLA applies it inside of one operation. Loop "
            "over the elements instead, with jax.lax.scan, jax.lax.fori_loop or bellhop.for_loop."
        )
