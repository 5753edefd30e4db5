"""Loops whose turns are computed first, and used after that: all of them, or a block at a time."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import eval_jaxpr
from jax.lax import iota_p

from bellhop.circuits.vectorize.elementwise import is_elementwise
from bellhop.circuits.vectorize.vectorize import vectorized

# The turns of a block: that makes a call of the runtime a few nanoseconds a turn.
_TURNS_IN_A_BLOCK = 64

# There are fewer where the results of a turn are large: the numbers of a block.
_NUMBERS_IN_A_BLOCK = 1 << 16

# Takes a state, the results of some turns, stacked, and how many turns these are, of which there
# may be fewer than results; returns the state after them.
Use = Callable[[Any, Any, Any], Any]


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
    independent = _independent(turn, carried)
    if independent is not None:
        return carried, jax.vmap(independent)(numbers)
    return jax.lax.scan(turn, carried, numbers)


def use_turns(
    turn: Callable[[Any, Any], tuple[Any, Any]], carried: Any, turns: Any, use: Use, state: Any
) -> tuple[Any, Any]:
    """Use the results of all turns, a block at a time; return what is carried, and the state.

    Args:
        turn: as ``stacked_turns`` takes it.
        carried: what the first turn gets.
        turns: how many there are, which only the run knows.
        use: is called for each block.
        state: before the first turn.
    """
    independent = _independent(turn, carried)
    turns = jax.lax.convert_element_type(turns, int)
    if independent is None:

        def next_turn(values: Any) -> Any:
            number, carried = values
            carried, results = turn(carried, number)
            return (number + 1, carried), results

        first = jnp.asarray(0), carried
        (_, carried), state = use_turns_while(
            lambda values: values[0] < turns, next_turn, first, use, state
        )
        return carried, state
    most = _block_size(jax.eval_shape(independent, 0))

    def one_block(loop: Any) -> Any:
        first, state = loop
        count = jnp.minimum(most, turns - first)
        # Past the last turn comes the last one again, so that nothing is computed, and
        # differentiated, that would not be in a loop.
        numbers = first + jnp.minimum(jnp.arange(most), count - 1)
        return first + most, use(state, jax.vmap(independent)(numbers), count)

    _, state = jax.lax.while_loop(lambda loop: loop[0] < turns, one_block, (jnp.asarray(0), state))
    return carried, state


def use_turns_while(
    goes_on: Callable[[Any], Any],
    turn: Callable[[Any], tuple[Any, Any]],
    carried: Any,
    use: Use,
    state: Any,
) -> tuple[Any, Any]:
    """The same for turns while a condition holds.

    A turn is computed if it happens, and once, and so is the condition: what they call is called
    as in a loop.

    Args:
        goes_on: takes what is carried; tells whether there is another turn.
        turn: takes what is carried; returns what is carried next and the results of the turn.
        carried: what the first turn gets.
        use: is called for each block.
        state: before the first turn.
    """
    results = jax.eval_shape(turn, carried)[1]
    most = _block_size(results)

    def one_turn(block: Any) -> Any:
        count, _, carried, stacks = block
        carried, results = turn(carried)
        put = lambda stack, result: jax.lax.dynamic_update_index_in_dim(stack, result, count, 0)
        return count + 1, goes_on(carried), carried, jax.tree.map(put, stacks, results)

    def one_block(loop: Any) -> Any:
        more, carried, state = loop
        empty = jax.tree.map(lambda like: jnp.zeros((most, *like.shape), like.dtype), results)
        count, more, carried, stacks = jax.lax.while_loop(
            lambda block: block[1] & (block[0] < most),
            one_turn,
            (jnp.int32(0), more, carried, empty),
        )
        return more, carried, use(state, stacks, count)

    _, carried, state = jax.lax.while_loop(
        lambda loop: loop[0], one_block, (goes_on(carried), carried, state)
    )
    return carried, state


def _independent(
    turn: Callable[[Any, Any], tuple[Any, Any]], carried: Any
) -> Callable[[Any], Any] | None:
    """Return what gives the results of turns that are as well computed as vectors.

    Returns:
        a function of the number of the turn; None where turns depend on each other, or do more
        than to compute element by element.
    """
    if jax.tree.leaves(carried):
        return None
    closed, shapes = jax.make_jaxpr(lambda number: turn(carried, number)[1], return_shape=True)(0)
    # Numbers of turns are those of a loop within.
    if not all(eqn.primitive is iota_p or is_elementwise(eqn) for eqn in closed.jaxpr.eqns):
        return None
    # A turn with many gates is vectorised by itself before: that leaves fewer, longer vectors.
    closed = vectorized(closed)
    tree = jax.tree.structure(shapes)
    return lambda number: jax.tree.unflatten(tree, eval_jaxpr(closed.jaxpr, closed.consts, number))


def _block_size(results: Any) -> int:
    """Return how many turns of such results a block has."""
    numbers = sum(math.prod(result.shape) for result in jax.tree.leaves(results))
    return max(1, min(_TURNS_IN_A_BLOCK, _NUMBERS_IN_A_BLOCK // max(1, numbers)))
