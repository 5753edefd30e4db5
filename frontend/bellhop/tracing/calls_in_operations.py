"""Errors for callbacks and circuits inside of an XLA operation such as a reduction."""

from jax.extend.core import Jaxpr

from bellhop._jax.patches.functions_in_operations import check_functions_in_operations
from bellhop._jax.private import JAX_CALLBACK_PRIMITIVES, equation_site
from bellhop.errors import CompileError
from bellhop.jaxprs.equations import iterate_equations

# Name prefixes of Bellhop's primitives that call the runtime or contain such calls.
_BELLHOP_PREFIXES = ("bellhop_", "quantum_")


def forbid_calls_in_operations() -> None:
    """Patch JAX to reject reductions and scatters whose functions call Python."""
    check_functions_in_operations(_check)


def _check(operation: str, jaxpr: Jaxpr) -> None:
    """Raise an error if the function of an XLA operation calls Python or a circuit.

    XLA applies the function inside of one operation, where it cannot call the runtime.

    Args:
        operation: public name of the operation, such as ``jax.lax.reduce``.
        jaxpr: jaxpr of the function, such as the sum of two numbers.

    Raises:
        CompileError: naming the operation, its line, and the callback or circuit.
    """
    for eqn in iterate_equations(jaxpr):
        if eqn.primitive in JAX_CALLBACK_PRIMITIVES:
            callee = f"jax.{eqn.primitive}"
        elif eqn.primitive.name.startswith(_BELLHOP_PREFIXES):
            callee = str(eqn.params.get("target", eqn.primitive.name.replace("quantum_", "a ")))
        else:
            continue
        raise CompileError(
            f"{operation} ({equation_site() or '<unknown>'}): its function calls {callee}, "
            "expected XLA operations only, since XLA applies the function inside of one "
            "operation. Loop over the elements instead, with jax.lax.scan, jax.lax.fori_loop or "
            "bellhop.for_loop."
        )
