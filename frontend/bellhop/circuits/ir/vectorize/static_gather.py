"""``gather_static``: a gather whose transpose is a sum of gathers.

For ``x`` of three elements, ``gather_static(x, np.array([2, 0, 2]))`` is traced to, and transposed
to ::

    y = bellhop_linear_map x                                          y = [x[2], x[0], x[2]]

    y_bar0 = concatenate y_bar [0]
    x_bar = add (bellhop_linear_map y_bar0) (bellhop_linear_map y_bar0)

The first map gathers ``[1, 3, 0]`` and the second ``[3, 3, 2]``, since
``x_bar = [y_bar[1], 0, y_bar[0] + y_bar[2]]``.  The transpose of ``lax.gather`` would be a
scatter.  XLA's CPU backend runs a scatter as a loop with one iteration for each index, here for
each angle of a circuit.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import ShapedArray

from bellhop.base.types import Operand
from bellhop.callbacks.linear_map import LinearMap

# If an element is gathered more often than this, the transpose is a scatter.
_MAX_TERMS = 4

_GATHER_DIMENSIONS = lax.GatherDimensionNumbers(
    offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,)
)


def gather_static(array: Operand, indices: np.ndarray) -> jax.Array:
    """Gather elements of the flattened array at constant indices.

    It computes ``array.ravel()[indices]``. Its transpose is a sum of gathers, not a scatter, unless
    an element is gathered often.

    Args:
        array: array of any shape.
        indices: NumPy integer array of flat indices, of any shape; they must be in range.

    Returns:
        array of the shape of ``indices``.
    """
    elements, places = jnp.reshape(array, -1), indices.reshape(-1)
    if places.size and np.array_equal(places, np.arange(places[0], places[0] + places.size)):
        first = int(places[0])
        picked = lax.slice(elements, (first,), (first + places.size,))
    else:
        linear = LinearMap(
            lambda _, cotangents: [_gather_transpose(cotangents[0], places, elements.size)],
            lambda _, operands: [_gather(operands[0], places)],
            0,
            (ShapedArray(places.shape, elements.dtype),),
        )
        (picked,) = linear([], [elements])
    return picked.reshape(indices.shape)


def _gather(elements: Operand, places: np.ndarray) -> Operand:
    """Return ``elements[places]`` of a vector, without bounds checks."""
    rows = places.astype(np.int32)[:, None]
    mode = lax.GatherScatterMode.PROMISE_IN_BOUNDS
    return lax.gather(elements, rows, _GATHER_DIMENSIONS, (1,), mode=mode)


def _gather_transpose(cotangent: Operand, places: np.ndarray, size: int) -> Operand:
    """Transpose ``_gather``: add each cotangent to its source element.

    Args:
        cotangent: vector, the cotangent of the gathered elements.
        places: the indices of the gather, in the order of ``cotangent``.
        size: the number of elements of the source array, whose cotangent is returned.
    """
    uses = np.bincount(places, minlength=size)
    most = int(uses.max(initial=0))
    if most > _MAX_TERMS:
        return jnp.zeros(size, cotangent.dtype).at[places].add(cotangent)
    # ``terms[k, i]`` is the index of the k-th cotangent that is added to element i, or the index of
    # a zero that is appended to the cotangents if element i has fewer cotangents.
    order = np.argsort(places, kind="stable")
    firsts = np.cumsum(uses) - uses
    terms = np.full((most, size), places.size, np.int32)
    terms[np.arange(order.size) - firsts[places[order]], places[order]] = order
    if (uses != most).any():
        cotangent = jnp.concatenate([cotangent, jnp.zeros(1, cotangent.dtype)])
    parts = [gather_static(cotangent, term) for term in terms]
    return sum(parts[1:], parts[0]) if parts else jnp.zeros(size, cotangent.dtype)
