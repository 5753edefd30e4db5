"""Precompute the values of many loop iterations, before their gates are applied.

With the body ``lambda _, i: ((), x * i)``, which carries nothing, a loop of static trip count
becomes a vector::

    stack_iterations(body, (), 3)    returns    (), mul x [0 1 2]

With a dynamic trip count ``n``, such a vector has no static shape.  The loop becomes a loop over
blocks of 64 iterations, and each block ends in a call of ``use``::

    consume_iterations(body, (), n, use, state)    is traced to

        block = 0
        while 64 * block < n:
            first = 64 * block
            state = use(state, mul x [first ... first + 63], min(64, n - first))
            block = block + 1

If an iteration depends on the previous one, ``scan`` computes the values instead of a vector
operation, and an inner ``while`` does in a block.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr
from jax.lax import iota_p

from bellhop.base.types import Operand, PyTree
from bellhop.circuits.ir.gate_jaxpr import ForLoop
from bellhop.circuits.ir.vectorize.elementwise import is_elementwise
from bellhop.circuits.ir.vectorize.vectorize import vectorize_jaxpr

# The most iterations in a block.  With this number, the cost of calling the runtime is a few
# nanoseconds for each iteration.
_MAX_BLOCK_ITERATIONS = 64

# The most array elements in the results of all iterations of a block.
_MAX_BLOCK_SIZE = 1 << 16

# Takes a state, the stacked results of a block, and the number of iterations in the block; returns
# the state after these iterations.  The last block may have fewer iterations than stacked results;
# the results of further iterations must be ignored.
BlockConsumer = Callable[[Any, Any, Any], Any]


def stack_iterations(
    body: Callable[[Any, Any], tuple[Any, Any]], carried: PyTree, n_iterations: int
) -> tuple[Any, Any]:
    """Run a loop of static trip count; stack the results of its iterations.

    Iterations that carry nothing and compute elementwise become vector operations.  Others become a
    ``scan``.

    Args:
        body: ``(carried, index) -> (carried, results)``.
        carried: pytree of the carried values of the first iteration.
        n_iterations: the trip count.

    Returns:
        the carried values after the loop, and the results with a leading axis of iterations.
    """
    independent = _find_independent_body(body, carried)
    if independent is not None:
        return carried, jax.vmap(independent)(jnp.arange(n_iterations))
    return jax.lax.scan(body, carried, ForLoop.make_indices(n_iterations))


def consume_iterations(
    body: Callable[[Any, Any], tuple[Any, Any]],
    carried: PyTree,
    n_iterations: int | Operand,
    use: BlockConsumer,
    state: Any,
) -> tuple[Any, Any]:
    """Run a ``for`` loop of dynamic trip count, and use its results block by block.

    The results are gate parameters, for instance. The results of all iterations have no static
    shape, so ``use`` gets the results of up to 64 iterations at a time.

    Args:
        body: ``(carried, index) -> (carried, results)``, without gates.
        carried: pytree of the carried values of the first iteration.
        n_iterations: the trip count, a tracer.
        use: ``(state, stacked results, count) -> state``, for each block of iterations. Results
            after the first ``count`` are padding.
        state: the state before the first block.

    Returns:
        the carried values and the state after the loop.
    """
    independent = _find_independent_body(body, carried)
    n_iterations = jax.lax.convert_element_type(n_iterations, int)
    if independent is None:

        def next_iteration(values: Any) -> Any:
            """Run one iteration, as the body of a ``while`` loop that carries the index, too."""
            index, carried = values
            carried, results = body(carried, index)
            return (index + 1, carried), results

        first = jnp.asarray(0), carried
        (_, carried), state = consume_while_iterations(
            lambda values: values[0] < n_iterations, next_iteration, first, use, state
        )
        return carried, state
    block_size = _choose_block_size(jax.eval_shape(independent, 0))

    def run_block(loop: Any) -> Any:
        """Compute the results of a block of iterations at once, and pass them to ``use``.

        Args:
            loop: a pair of the index of the block, and the state.

        Returns:
            the pair for the next block.
        """
        block, state = loop
        first = block_size * block
        count = jnp.minimum(block_size, n_iterations - first)
        # The last iteration fills the rest of the last block.  Indices past the end would compute
        # and differentiate iterations that the loop does not have.
        indices = first + jnp.minimum(jnp.arange(block_size), count - 1)
        return block + 1, use(state, jax.vmap(independent)(indices), count)

    # The loop counts blocks: before jaxlib 0.12, XLA miscounts a loop whose counter grows by more
    # than one, in a plain jax.jit too (`bellhop.settings.loop_simplification`).
    _, state = jax.lax.while_loop(
        lambda loop: block_size * loop[0] < n_iterations, run_block, (jnp.asarray(0), state)
    )
    return carried, state


def consume_while_iterations(
    condition: Callable[[Any], Any],
    body: Callable[[Any], tuple[Any, Any]],
    carried: PyTree,
    use: BlockConsumer,
    state: Any,
) -> tuple[Any, Any]:
    """Run a ``while`` loop, and use its results block by block.

    The results are gate parameters, for instance, and ``use`` applies the gates of a block by one
    call. Body and condition are computed as often as in a loop without blocks, so callbacks in them
    are called as often.

    Args:
        condition: ``carried -> bool scalar``, whether another iteration follows.
        body: ``carried -> (carried, results)``, without gates.
        carried: pytree of the carried values of the first iteration.
        use: ``(state, stacked results, count) -> state``, for each block of iterations. Results
            after the first ``count`` are padding.
        state: the state before the first block.

    Returns:
        the carried values and the state after the loop.
    """
    results = jax.eval_shape(lambda carried: body(carried)[1], carried)
    block_size = _choose_block_size(results)

    def run_iteration(block: Any) -> Any:
        """Run one iteration, and write its results to the stacks of the block.

        It takes and returns the number of iterations in the block so far, whether another iteration
        follows, the carried values and the stacks.
        """
        count, _, carried, stacks = block
        carried, results = body(carried)
        put = lambda stack, result: jax.lax.dynamic_update_index_in_dim(stack, result, count, 0)
        return count + 1, condition(carried), carried, jax.tree.map(put, stacks, results)

    def run_block(loop: Any) -> Any:
        """Run the iterations of a block in order; pass their stacked results to ``use``.

        It takes and returns whether another iteration follows, the carried values and the state.
        """
        more, carried, state = loop
        empty = jax.tree.map(lambda like: jnp.zeros((block_size, *like.shape), like.dtype), results)
        count, more, carried, stacks = jax.lax.while_loop(
            lambda block: block[1] & (block[0] < block_size),
            run_iteration,
            (jnp.int32(0), more, carried, empty),
        )
        return more, carried, use(state, stacks, count)

    _, carried, state = jax.lax.while_loop(
        lambda loop: loop[0], run_block, (condition(carried), carried, state)
    )
    return carried, state


def _find_independent_body(
    body: Callable[[Any, Any], tuple[Any, Any]], carried: PyTree
) -> Callable[[Any], Any] | None:
    """Return a loop's body as a function of the iteration's index alone, for ``vmap``.

    Args:
        body: ``(carried, index) -> (carried, results)``.
        carried: pytree of the carried values of the first iteration.

    Returns:
        a function ``index -> results``; None if iterations carry values, or do more than
        elementwise computations.
    """
    if jax.tree.leaves(carried):
        return None
    closed, shapes = jax.make_jaxpr(lambda number: body(carried, number)[1], return_shape=True)(0)
    vectors = vectorize_elementwise(closed)
    if vectors is None:
        return None
    tree = jax.tree.structure(shapes)
    return lambda number: jax.tree.unflatten(tree, vectors(number))


def vectorize_elementwise(closed: ClosedJaxpr) -> Callable[..., list[Any]] | None:
    """Convert an elementwise jaxpr to a function that is fast under ``vmap``.

    Args:
        closed: the jaxpr, of one loop iteration. Its computations are combined to operations on
            longer vectors.

    Returns:
        a function from the jaxpr's inputs to a list of its outputs; None if the jaxpr is not
        elementwise.
    """
    # An ``iota`` is the indices of an inner loop's iterations.
    if not all(eqn.primitive is iota_p or is_elementwise(eqn) for eqn in closed.jaxpr.eqns):
        return None
    # An iteration may have many gates.  Vectorizing within the iteration first leaves fewer
    # operations on longer vectors.
    closed = vectorize_jaxpr(closed)
    return lambda *numbers: eval_jaxpr(closed.jaxpr, closed.consts, *numbers)


def _choose_block_size(results: Any) -> int:
    """Return how many iterations' results to compute in one block, from 1 to 64.

    The results of a block have at most 2**16 array elements, if possible.

    Args:
        results: pytree of the shapes of one iteration's results.
    """
    numbers = sum(math.prod(result.shape) for result in jax.tree.leaves(results))
    return max(1, min(_MAX_BLOCK_ITERATIONS, _MAX_BLOCK_SIZE // max(1, numbers)))
