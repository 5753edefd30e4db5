"""Postselection: impossible outcomes, and fill values for dropped shots.

A shot is *accepted* if all its postselections hold.  By default, a rejected shot is executed again
until it is accepted, unless acceptance is impossible.  With ``postselect_mode="hw-like"``, rejected
shots are dropped, as on hardware.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from bellhop.errors import CompileError


def mask_impossible(total: Any) -> Any:
    """Replace an acceptance probability that is zero up to rounding errors by NaN.

    Results that are divided by it are then NaN, as a postselection that never holds has no result.

    Args:
        total: real array, the summed probability of the accepted branches.
    """
    least = max(1e-15, 100 * float(jnp.finfo(total.dtype).eps) ** 2)
    return jnp.where(total >= least, total, jnp.nan)


def fill_rejected_samples(samples: Any, is_accepted: Any, where: str) -> Any:
    """Replace samples of rejected shots by ``FILL_VALUE``, an invalid sample.

    Args:
        samples: array ``[shots, ...]``. A small integer type is filled with its least value.
        is_accepted: bool ``[shots]``, whether all postselections of the shot hold; or a scalar for
            all shots.
        where: the QNode's name and line, for error messages.

    Raises:
        CompileError: for samples of an unsigned or boolean type.
    """
    if not jnp.issubdtype(samples.dtype, jnp.inexact):
        if not jnp.issubdtype(samples.dtype, jnp.signedinteger):
            raise CompileError(
                f"{where}: samples of type {samples.dtype} after a postselection are not "
                "supported: the type has no fill value for dropped shots. Use "
                "qml.sample(dtype=int)."
            )
        fill = max(FILL_VALUE, jnp.iinfo(samples.dtype).min)
    else:
        fill = FILL_VALUE
    is_accepted = jnp.reshape(is_accepted, (-1, *[1] * (samples.ndim - 1)))
    return jnp.where(is_accepted, samples, jnp.asarray(fill, samples.dtype))


# The sample of a dropped shot, as in PennyLane.
FILL_VALUE = np.iinfo(np.int32).min
