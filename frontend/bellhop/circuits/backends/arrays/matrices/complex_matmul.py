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


def matmul(left: Operand, right: Operand) -> Any:
    """Return the products of matrices, the last two axes, of which each may be real."""
    return jax.lax.platform_dependent(left, right, tpu=_matmul_as_real, default=jnp.matmul)


def _matmul_as_real(left: Operand, right: Operand) -> Any:
    if not jnp.iscomplexobj(right):
        if not jnp.iscomplexobj(left):
            return left @ right
        return _join_complex(jnp.concatenate([left.real, left.imag], -2) @ right, -2)
    if not jnp.iscomplexobj(left):
        return _join_complex(left @ jnp.concatenate([right.real, right.imag], -1), -1)
    above = jnp.concatenate([left.real, -left.imag], -1)
    below = jnp.concatenate([left.imag, left.real], -1)
    both = jnp.concatenate([above, below], -2) @ jnp.concatenate([right.real, right.imag], -2)
    return _join_complex(both, -2)


def _join_complex(both: Operand, axis: int) -> jax.Array:
    return jax.lax.complex(*jnp.split(both, 2, axis))


def to_real_matrices(matrices: Any, n_components: int) -> Any:
    """Return matrices as those of the parts and the entries of a state together."""
    if n_components == 1:
        return matrices
    xp = np if isinstance(matrices, np.ndarray) else jnp
    real, imag = xp.real(matrices), xp.imag(matrices)
    rows = [xp.concatenate(row, 2) for row in ((real, -imag), (imag, real))]
    return xp.concatenate(rows, 1)
