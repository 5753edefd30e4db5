"""What all turns of a loop compute, stacked."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from bellhop.circuits.vectorize import is_elementwise


def stacked_turns(
    turn: Callable[[Any, Any], tuple[Any, Any]], carried: Any, turns: int
) -> tuple[Any, Any]:
    """Return what is carried after a loop, and the results of all turns.

    Turns that do not depend on each other, and compute element by element, are computed as
    vectors; others one after another.

    Args:
        turn: takes what is carried and the number of the turn; returns what is carried next and
            the results of the turn.
        carried: what the first turn gets.
        turns: how many there are.
    """
    numbers = jnp.arange(turns)
    if not jax.tree.leaves(carried):
        closed = jax.make_jaxpr(lambda number: turn(carried, number)[1])(0)
        if all(map(is_elementwise, closed.jaxpr.eqns)):
            _, stacked = jax.vmap(lambda number: turn(carried, number), out_axes=(None, 0))(numbers)
            return carried, stacked
    return jax.lax.scan(turn, carried, numbers)
