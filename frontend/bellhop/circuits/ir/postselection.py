"""Which shots postselection keeps, and the values in place of the others.

A shot is *kept* if all postselections of its run hold.  By default the others are drawn again from
the beginning, so that all are kept, unless none can be.  With ``postselect_mode="hw-like"`` they
are dropped, as on hardware.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr

from bellhop.circuits.ir.seeds import random_effect
from bellhop.errors import CompileError
from bellhop.jaxprs.equations import inner_jaxprs, iterate_equations


def mask_impossible(total: Any) -> Any:
    """Return the probability of all branches that postselections leave, or NaN where none is left.

    What is less likely than the errors of a state is impossible.
    """
    least = max(1e-15, 100 * float(jnp.finfo(total.dtype).eps) ** 2)
    return jnp.where(total >= least, total, jnp.nan)


def can_runs_differ(once: ClosedJaxpr) -> bool:
    """Tell whether two runs with the same outcomes may differ, by what Python tells them.

    What the program itself draws, the bases of classical shadows, comes after all outcomes.
    """
    return any(
        eqn.effects - {random_effect} and eqn.outvars
        for eqn in iterate_equations(once.jaxpr)
        if next(inner_jaxprs(eqn), None) is None
    )


def fill_rejected_samples(samples: Any, is_accepted: Any, where: str) -> Any:
    """Return samples with a number that no sample is in place of those that were dropped.

    Args:
        samples: a row for each shot.
        is_accepted: for each shot, or for all.
        where: the QNode, for errors.
    """
    if not jnp.issubdtype(samples.dtype, jnp.inexact):
        if not jnp.issubdtype(samples.dtype, jnp.signedinteger):
            raise CompileError(
                f"{where}: samples of type {samples.dtype} after a postselection; they have no "
                "number for shots that it drops. Use qml.sample(dtype=int)."
            )
        fill = max(FILL_VALUE, jnp.iinfo(samples.dtype).min)
    else:
        fill = FILL_VALUE
    is_accepted = jnp.reshape(is_accepted, (-1, *[1] * (samples.ndim - 1)))
    return jnp.where(is_accepted, samples, jnp.asarray(fill, samples.dtype))


# In place of a sample that was dropped, as PennyLane has it.
FILL_VALUE = np.iinfo(np.int32).min
