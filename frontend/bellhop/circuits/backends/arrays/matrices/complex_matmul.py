"""Products of small complex matrices, for a TPU by one product of real ones.

A TPU has no complex numbers, so that such a product is four, and no double precision: where XLA
emulates that, each is some hundreds of operations.  There is one here::

    [C_re]   [A_re  -A_im] [B_re]
    [C_im] = [A_im   A_re] [B_im]
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.base.types import Operand


def multiplied(one: Operand, other: Operand) -> Any:
    """Return the products of matrices, the last two axes, of which each may be real."""
    return jax.lax.platform_dependent(one, other, tpu=_by_real_ones, default=jnp.matmul)


def _by_real_ones(one: Operand, other: Operand) -> Any:
    if not jnp.iscomplexobj(other):
        if not jnp.iscomplexobj(one):
            return one @ other
        return _of_halves(jnp.concatenate([one.real, one.imag], -2) @ other, -2)
    if not jnp.iscomplexobj(one):
        return _of_halves(one @ jnp.concatenate([other.real, other.imag], -1), -1)
    above = jnp.concatenate([one.real, -one.imag], -1)
    below = jnp.concatenate([one.imag, one.real], -1)
    both = jnp.concatenate([above, below], -2) @ jnp.concatenate([other.real, other.imag], -2)
    return _of_halves(both, -2)


def _of_halves(both: Operand, axis: int) -> jax.Array:
    return jax.lax.complex(*jnp.split(both, 2, axis))


def as_real(matrices: Any, parts: int) -> Any:
    """Return matrices as those of the parts and the entries of a state together."""
    if parts == 1:
        return matrices
    xp = np if isinstance(matrices, np.ndarray) else jnp
    real, imag = xp.real(matrices), xp.imag(matrices)
    rows = [xp.concatenate(row, 2) for row in ((real, -imag), (imag, real))]
    return xp.concatenate(rows, 1)
