"""Splits loops of gates: classical values of all iterations first, then their gates.

For the body ``lambda _, i: ((), x * i)`` of 3 iterations, which carries nothing::

    stack_iterations(body, (), 3)       (), mul x [0 1 2]          independent: vectors
    use_iterations(body, (), n, use, state)                        dynamic length: blocks of 64

        state = while first < n:  use(state, mul x [first ... first + 63], min(64, n - first))

Iterations that depend on each other are computed by ``scan``, or by an inner ``while`` for each
block.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import eval_jaxpr
from jax.lax import iota_p

from bellhop.circuits.vectorize.elementwise import is_elementwise
from bellhop.circuits.vectorize.vectorize import vectorized

# The iterations of a block: that makes a call of the runtime a few nanoseconds an iteration.
_MOST_IN_A_BLOCK = 64

# There are fewer where the results of an iteration are large: the numbers of a block.
_NUMBERS_IN_A_BLOCK = 1 << 16

# Takes a state, the results of some iterations, stacked, and how many iterations these are, of
# which there may be fewer than results; returns the state after them.
Use = Callable[[Any, Any, Any], Any]


def stack_iterations(
    body: Callable[[Any, Any], tuple[Any, Any]], carried: Any, n_iterations: int
) -> tuple[Any, Any]:
    """Return the carried values after a loop, and the stacked results of all iterations.

    Iterations that do not depend on each other, and compute element by element, are computed as
    vectors; others one after another.

    Args:
        body: takes what is carried and the number of the iteration; returns what is carried next
            and the results of the iteration.
        carried: what the first iteration gets.
        n_iterations: how many there are.
    """
    numbers = jnp.arange(n_iterations)
    independent = _independent(body, carried)
    if independent is not None:
        return carried, jax.vmap(independent)(numbers)
    return jax.lax.scan(body, carried, numbers)


def use_iterations(
    body: Callable[[Any, Any], tuple[Any, Any]],
    carried: Any,
    n_iterations: Any,
    use: Use,
    state: Any,
) -> tuple[Any, Any]:
    """Use the results of all iterations, a block at a time; return what is carried, and the state.

    Args:
        body: as ``stack_iterations`` takes it.
        carried: what the first iteration gets.
        n_iterations: how many there are, which only the run knows.
        use: is called for each block.
        state: before the first iteration.
    """
    independent = _independent(body, carried)
    n_iterations = jax.lax.convert_element_type(n_iterations, int)
    if independent is None:

        def next_iteration(values: Any) -> Any:
            number, carried = values
            carried, results = body(carried, number)
            return (number + 1, carried), results

        first = jnp.asarray(0), carried
        (_, carried), state = use_iterations_while(
            lambda values: values[0] < n_iterations, next_iteration, first, use, state
        )
        return carried, state
    most = _block_size(jax.eval_shape(independent, 0))

    def one_block(loop: Any) -> Any:
        first, state = loop
        count = jnp.minimum(most, n_iterations - first)
        # Past the last iteration comes the last one again, so that nothing is computed, and
        # differentiated, that would not be in a loop.
        numbers = first + jnp.minimum(jnp.arange(most), count - 1)
        return first + most, use(state, jax.vmap(independent)(numbers), count)

    _, state = jax.lax.while_loop(
        lambda loop: loop[0] < n_iterations, one_block, (jnp.asarray(0), state)
    )
    return carried, state


def use_iterations_while(
    goes_on: Callable[[Any], Any],
    body: Callable[[Any], tuple[Any, Any]],
    carried: Any,
    use: Use,
    state: Any,
) -> tuple[Any, Any]:
    """The same for iterations while a condition holds.

    An iteration is computed if it happens, and once, and so is the condition: what they call is
    called as in a loop.

    Args:
        goes_on: takes what is carried; tells whether there is another iteration.
        body: takes what is carried; returns what is carried next and the results of the iteration.
        carried: what the first iteration gets.
        use: is called for each block.
        state: before the first iteration.
    """
    results = jax.eval_shape(body, carried)[1]
    most = _block_size(results)

    def one_iteration(block: Any) -> Any:
        count, _, carried, stacks = block
        carried, results = body(carried)
        put = lambda stack, result: jax.lax.dynamic_update_index_in_dim(stack, result, count, 0)
        return count + 1, goes_on(carried), carried, jax.tree.map(put, stacks, results)

    def one_block(loop: Any) -> Any:
        more, carried, state = loop
        empty = jax.tree.map(lambda like: jnp.zeros((most, *like.shape), like.dtype), results)
        count, more, carried, stacks = jax.lax.while_loop(
            lambda block: block[1] & (block[0] < most),
            one_iteration,
            (jnp.int32(0), more, carried, empty),
        )
        return more, carried, use(state, stacks, count)

    _, carried, state = jax.lax.while_loop(
        lambda loop: loop[0], one_block, (goes_on(carried), carried, state)
    )
    return carried, state


def _independent(
    body: Callable[[Any, Any], tuple[Any, Any]], carried: Any
) -> Callable[[Any], Any] | None:
    """Return a function to ``vmap`` for the results, if iterations are independent.

    Returns:
        a function of the number of the iteration; None where iterations depend on each other, or do
        more than to compute element by element.
    """
    if jax.tree.leaves(carried):
        return None
    closed, shapes = jax.make_jaxpr(lambda number: body(carried, number)[1], return_shape=True)(0)
    # Numbers of iterations are those of a loop within.
    if not all(eqn.primitive is iota_p or is_elementwise(eqn) for eqn in closed.jaxpr.eqns):
        return None
    # An iteration with many gates is vectorised by itself before: that leaves fewer, longer
    # vectors.
    closed = vectorized(closed)
    tree = jax.tree.structure(shapes)
    return lambda number: jax.tree.unflatten(tree, eval_jaxpr(closed.jaxpr, closed.consts, number))


def _block_size(results: Any) -> int:
    """Return the number of iterations in a block, by the size of their results."""
    numbers = sum(math.prod(result.shape) for result in jax.tree.leaves(results))
    return max(1, min(_MOST_IN_A_BLOCK, _NUMBERS_IN_A_BLOCK // max(1, numbers)))
