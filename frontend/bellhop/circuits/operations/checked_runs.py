"""Errors of circuits on ``default.qubit`` and ``default.mixed`` that show when they run.

A check is a pure callback that the results depend on: where nobody uses them, as in branches that
``jax.vmap`` computes and drops, it need not run.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.callbacks.pure_callback import PureCallback
from bellhop.compiler.own_function import OwnFunction
from bellhop.errors import CircuitError
from bellhop.tracing.state import trace_state


def checked(values: Any, check: OwnFunction, operand: Any, *, fails: Any) -> Any:
    """Return a pytree of arrays, unless a check of an operand raises when the program runs.

    Args:
        values: the pytree.
        check: raises the error.
        operand: what it takes.
        fails: whether it will; the host, for which another device waits, is not called otherwise.
            In a region over several devices it never is, each of which would call it: there the
            values are NaN, or -1 of integers.
    """
    if trace_state().state_axes is not None:
        is_well = ~fails
    else:
        call = PureCallback(check, jax.ShapeDtypeStruct((), bool), "broadcast_all")
        is_well = jax.lax.cond(fails, call, lambda _: ~fails, operand)

    def guarded(value: Any) -> Any:
        nothing = jnp.nan if jnp.issubdtype(value.dtype, jnp.inexact) else -1
        return jnp.where(is_well, value, jnp.asarray(nothing).astype(value.dtype))

    return jax.tree.map(guarded, values)


class DrawCheck(OwnFunction):
    """Refuses to draw outcomes by probabilities that are NaN; it is made of the QNode."""

    __name__ = "draw_check"
    is_of_circuit = True

    def __call__(self, totals: np.ndarray) -> np.ndarray:
        """Return that all is well for each sum of probabilities."""
        [where] = self.arguments
        # As the engine says it, runtime/devices/error.h.
        if np.isnan(totals).any():
            raise CircuitError(
                f"{where}: probabilities of outcomes are NaN. A parameter of the circuit is no "
                "number."
            )
        return np.ones(np.shape(totals), bool)
