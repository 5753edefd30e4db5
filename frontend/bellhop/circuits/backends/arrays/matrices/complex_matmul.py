"""Multiply small complex matrices, on a TPU by one product of real matrices.

A TPU has no complex numbers, so that such a product becomes four, and no double precision, so that
each of these becomes hundreds of operations.  Here one real product computes both parts::

    [C_re]   [A_re  -A_im] [B_re]
    [C_im] = [A_im   A_re] [B_im]
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.base.types import Operand


def matmul(left: Operand, right: Operand) -> Any:
    """Return ``left @ right`` for stacks of matrices, each of them real or complex."""
    return jax.lax.platform_dependent(left, right, tpu=_matmul_as_real, default=jnp.matmul)


def _matmul_as_real(left: Operand, right: Operand) -> Any:
    """Multiply matrices by one product of real matrices: `matmul` on a TPU.

    Args:
        left: array ``[..., rows, n]``.
        right: array ``[..., n, columns]``.

    Returns:
        array ``[..., rows, columns]``, complex if `left` or `right` is.
    """
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
    """Return a complex array; `both` has real parts, then imaginary parts along `axis`."""
    return jax.lax.complex(*jnp.split(both, 2, axis))


def to_real_matrices(matrices: Any, n_components: int) -> Any:
    """Convert complex matrices to real matrices that act on real and imaginary parts.

    Each matrix ``A`` becomes the block matrix ``[[A_re, -A_im], [A_im, A_re]]``.

    Args:
        matrices: array ``[matrices, rows, columns]``.
        n_components: real numbers per entry of the state: 2 for complex amplitudes; or 1 for a real
            state, whose matrices are returned unchanged.

    Returns:
        array ``[matrices, n_components * rows, n_components * columns]``; of NumPy if `matrices`
        is.
    """
    if n_components == 1:
        return matrices
    xp = np if isinstance(matrices, np.ndarray) else jnp
    real, imag = xp.real(matrices), xp.imag(matrices)
    rows = [xp.concatenate(row, 2) for row in ((real, -imag), (imag, real))]
    return xp.concatenate(rows, 1)
