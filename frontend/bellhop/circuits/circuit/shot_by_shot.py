"""A circuit of one shot, for each shot: where outcomes in the middle are drawn."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr

from bellhop.base.types import Handle
from bellhop.circuits.derivatives.score import derived_means
from bellhop.circuits.measure.sampling import group_of_shot
from bellhop.circuits.measure.statistics import Statistic
from bellhop.circuits.operations.state_primitives import HANDLE_STRUCT, restarted


def one_by_one(
    closed: ClosedJaxpr,
    statistics: Sequence[Statistic],
    groups: Sequence[int],
    inputs: Sequence[Any],
    *,
    postselects: bool,
    has_score: bool,
) -> ClosedJaxpr:
    """Return the jaxpr of all shots: means over groups, and all samples.

    Args:
        closed: from handle and inputs to handle and values, of one shot; before the values whether
            it was kept, where it postselects, and its score, where it has one.
        statistics: what its values are of.
        groups: the shots of each group of which there are means.
        inputs: arrays.
        postselects: whether it gives first whether it was kept; then the result does so of all.
        has_score: whether it has a score.
    """
    of_shots = [
        statistic.is_of_shots for statistic in statistics for _ in jax.tree.leaves(statistic.values)
    ]
    sizes = np.array(groups)

    def loop(handle: Handle, *inputs: Any) -> list[Any]:
        def step(carried: Any, group: Any) -> tuple[Any, Any]:
            handle, sums = carried
            handle, *values = eval_jaxpr(closed.jaxpr, closed.consts, handle, *inputs)
            is_accepted = values.pop(0) if postselects else None
            scores = [values.pop(0)] if has_score else []
            means = [value[0] for value, yes in zip(values, of_shots, strict=True) if not yes]
            samples = [value[0] for value, yes in zip(values, of_shots, strict=True) if yes]
            if is_accepted is None:
                handle, *_ = restarted(handle)
            else:
                means = [jnp.where(is_accepted, mean, 0) for mean in means]
                samples = [is_accepted, *samples]
                # No choice: where no shot is kept the derivative is NaN, as the mean is.
                scores = [score * is_accepted for score in scores]
            means += [mean * score for score in scores for mean in means] + scores
            sums = [sum_.at[group].add(mean) for sum_, mean in zip(sums, means, strict=True)]
            return (handle, sums), samples

        results = closed.out_avals[1 + postselects + has_score :]
        zeros = [
            jnp.zeros((len(sizes), *aval.shape[1:]), aval.dtype)
            for aval, yes in zip(results, of_shots, strict=True)
            if not yes
        ]
        zeros += [*zeros, jnp.zeros(len(sizes))] if has_score else []
        (handle, sums), stacked = jax.lax.scan(step, (handle, zeros), group_of_shot(groups))
        kept, n_accepted = [], sizes
        if postselects:
            kept = [stacked.pop(0)]
            n_accepted = jnp.zeros(len(sizes)).at[group_of_shot(groups)].add(kept[0])
        if has_score:
            means = iter(derived_means(sums, n_accepted, is_conditioned=postselects))
        else:
            means = iter(sum_ / n_accepted.reshape(-1, *[1] * (sum_.ndim - 1)) for sum_ in sums)
        samples = iter(stacked)
        return [handle, *kept, *(next(samples) if yes else next(means) for yes in of_shots)]

    return jax.make_jaxpr(loop)(HANDLE_STRUCT, *inputs)
