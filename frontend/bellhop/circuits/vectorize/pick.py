"""``pick``, a gather whose indices are constants, and whose transpose is no scatter.

For ``x`` of three elements, ``pick(x, np.array([2, 0, 2]))`` is traced to, and transposed to ::

    y = pick[places=[2,0,2]] x                                        y = [x[2], x[0], x[2]]

    y_bar0 = concatenate y_bar [0]
    x_bar = add (pick[places=[1,3,0]] y_bar0) (pick[places=[3,3,2]] y_bar0)

since ``x_bar = [y_bar[1], 0, y_bar[0] + y_bar[2]]``.  The transpose of ``lax.gather`` would be a
scatter.  XLA's CPU backend runs a scatter as a loop with one iteration for each index, here for
each angle of a circuit.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from bellhop.base.types import Aval, Operand

# real[..., size] -> real[..., n]
pick_p = Primitive("pick")

# If an element is picked more often than this, the transpose is a scatter after all.
_MOST_TERMS = 4


@dataclasses.dataclass(frozen=True)
class Places:
    """Indices along an axis, as a hashable parameter of an equation."""

    indices: np.ndarray

    def __hash__(self) -> int:
        return hash(self.indices.tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Places) and np.array_equal(self.indices, other.indices)

    def __repr__(self) -> str:
        return np.array2string(self.indices, separator=",", threshold=8)


def pick(array: Operand, indices: np.ndarray) -> jax.Array:
    """Return the elements of an array, as a vector, at indices; in the shape of the indices."""
    elements = jnp.reshape(array, -1)
    flat = indices.reshape(-1)
    if flat.size and np.array_equal(flat, np.arange(flat[0], flat[0] + flat.size)):
        first = int(flat[0])
        picked = lax.slice(elements, (first,), (first + flat.size,))
    else:
        picked = pick_p.bind(elements, places=Places(flat.astype(np.int32)))
    return picked.reshape(indices.shape)


def _gather(array: Operand, *, places: Places) -> Any:
    rank = jnp.ndim(array)
    dimensions = lax.GatherDimensionNumbers(
        offset_dims=tuple(range(rank - 1)),
        collapsed_slice_dims=(rank - 1,),
        start_index_map=(rank - 1,),
    )
    return lax.gather(
        array,
        places.indices[:, None],
        dimensions,
        (*array.shape[:-1], 1),
        mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS,
    )


pick_p.def_impl(_gather)
mlir.register_lowering(pick_p, mlir.lower_fun(_gather, multiple_results=False))


@pick_p.def_abstract_eval
def _aval(array: Aval, *, places: Places) -> ShapedArray:
    return ShapedArray((*array.shape[:-1], places.indices.size), array.dtype)


def _transpose(cotangent: Operand, array: Operand, *, places: Places) -> list[Any]:
    *rows, size = array.aval.shape
    uses = np.bincount(places.indices, minlength=size)
    most = int(uses.max(initial=0))
    if most > _MOST_TERMS:
        zeros = jnp.zeros((*rows, size), cotangent.dtype)
        return [zeros.at[..., places.indices].add(cotangent)]
    # Row k of ``terms`` has, for each element of the array, the index of the k-th cotangent that it
    # gets; or, if it gets no more, the index of a zero that is appended to the cotangents.
    order = np.argsort(places.indices, kind="stable")
    firsts = np.cumsum(uses) - uses
    terms = np.full((most, size), places.indices.size, np.int32)
    terms[np.arange(order.size) - firsts[places.indices[order]], places.indices[order]] = order
    if (uses != most).any():
        cotangent = jnp.concatenate([cotangent, jnp.zeros((*rows, 1), cotangent.dtype)], axis=-1)
    total = jnp.zeros((*rows, size), cotangent.dtype)
    for number, term in enumerate(terms):
        part = pick_p.bind(cotangent, places=Places(term))
        total = total + part if number else part
    return [total]


ad.deflinear2(pick_p, _transpose)


def _batch(arrays: Any, dims: Any, *, places: Places) -> tuple[Any, int]:
    return pick_p.bind(jnp.moveaxis(arrays[0], dims[0], 0), places=places), 0


batching.primitive_batchers[pick_p] = _batch
