"""Differentiate means of a function of samples.

A result that is the mean of ``f(sample)`` over shots has the expectation ``sum(f * p)``, where
``p`` is the probability of each outcome.  Its derivative ``sum(f * dp)`` is estimated from the
derivative of the frequencies of outcomes, which each backend estimates as for ``qml.probs``: by the
score function, ``dp = p * d(log p)``, or by parameter shifts.

Subtracting a number, a *baseline*, from ``f`` does not change the expectation of the estimate, as
the frequencies add up to one.  By the score function ``s``, ``n`` shots have the variance
``(E[((f - b) * s)**2] - E[f * s]**2) / n``, which is least for the baseline
``b = E[f * s**2] / E[s**2]``.  A rotation changes a probability ``p = sin(x / 2)**2`` with
``p * s**2 = 1 - p``, so ``f`` is averaged over the outcomes with the weights ``1 - p``.  With two
outcomes, the variance of such a gate's derivative is then zero, but for the error of ``b``.  A
baseline from the same samples would bias the estimate.  So the shots are halved, and each half
gives the baseline of the other half::

    result = mean(f(samples))
    tangent = (sum((f - b2) * df1) + sum((f - b1) * df2)) / 2
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.circuits.ir.runtime_checks import FaultRecorder
from bellhop.circuits.ir.tangents import forbid_derivative

# The derivative evaluates the function for each outcome of the measured wires.
MAX_WIRES = 12


def split_groups(groups: Sequence[int]) -> np.ndarray:
    """Split each group of shots into two halves, unless a group has fewer than two shots.

    ``[5, 4]`` becomes ``[[3, 2], [2, 2]]``, and ``[1, 4]`` becomes ``[[1], [4]]``.

    Args:
        groups: the number of shots of each group.

    Returns:
        integer array ``[groups, parts]``, the number of shots of each part.
    """
    sizes = np.array(groups)
    if sizes.min() < 2:
        return sizes[:, None]
    return np.stack([sizes - sizes // 2, sizes // 2], axis=1)


@dataclass(frozen=True)
class SampleMean:
    """A mean over shots of a function of samples, with its derivative.

    Attributes:
        function: the function, for one sample per row: maps bits ``[outcomes, wires]`` to values
            ``[outcomes, *shape]``.
        where: the QNode's name and line, for error messages.
        name: the name of the measurement's class, for error messages.
    """

    function: Callable[[Any], Any]
    where: str
    name: str

    def add_derivative(self, result: Any, frequencies: Any, shares: Any) -> Any:
        """Return ``result`` unchanged, with the derivative of a mean over shots.

        The derivative is estimated from the tangents of ``frequencies``. If the result is
        differentiated, the program evaluates ``function`` for all outcomes, and raises an error if
        the result is not the mean of the function.

        Args:
            result: array ``[*shape]``, computed from all samples of a group of shots.
            frequencies: array ``[parts, outcomes]``, the frequencies of outcomes in the group, or
                in both halves of it.
            shares: array ``[parts]``, the fraction of the group's shots in each half; 1 for the
                whole group.
        """
        if not jnp.issubdtype(result.dtype, jnp.floating):
            return forbid_derivative(
                result,
                f"{self.where}: {self.name} is differentiated, and its method process_samples "
                f"returns {result.dtype.name}, expected real numbers. Return a mean over shots.",
                by=frequencies,
            )

        # The rule takes all traced values as arguments: JAX may evaluate it after the trace of this
        # call has ended.
        @jax.custom_jvp
        def make_zeros(frequencies: Any, result: Any, shares: Any) -> Any:
            """Return zeros, whose custom JVP gives the estimated tangent of the result."""
            return jnp.zeros_like(result)

        @make_zeros.defjvp
        def make_zeros_jvp(primals: Any, tangents: Any) -> Any:
            """Compute the estimated tangent of the result from the tangent of the frequencies.

            This is the JVP rule of ``make_zeros``. The tangents of the result and of the shares are
            ignored.

            Args:
                primals: the arguments of ``make_zeros``.
                tangents: their tangents.

            Returns:
                zeros, and the tangent of the result.
            """
            frequencies, result, shares = map(jax.lax.stop_gradient, primals)
            values, baselines = self._evaluate(frequencies, result, shares)
            centred = values - jnp.expand_dims(baselines, 1)
            dots = (shares[:, None] * tangents[0]).astype(values.dtype)
            return jnp.zeros_like(result), jnp.tensordot(dots, centred, 2)

        return result + make_zeros(frequencies, jax.lax.stop_gradient(result), shares)

    def _evaluate(self, frequencies: Any, result: Any, shares: Any) -> tuple[Any, Any]:
        """Evaluate the function for each outcome, and compute a baseline for each part.

        The baseline, a weighted average of the function, is subtracted from the function to reduce
        the variance of the derivative. The baseline of one half of a group is computed from the
        frequencies of the other half; for a group that is not split, it is zero.

        Args:
            frequencies: array ``[parts, outcomes]``.
            result: array ``[*shape]``, to check that it is the mean.
            shares: array ``[parts]``, the fraction of the group's shots in each part.

        Returns:
            the values ``[outcomes, *shape]`` and the baselines ``[parts, *shape]``.
        """
        n_wires = (frequencies.shape[1] - 1).bit_length()
        outcomes = (np.arange(2**n_wires)[:, None] >> np.arange(n_wires)[::-1]) & 1
        values = jax.lax.stop_gradient(self.function(jnp.asarray(outcomes))).astype(result.dtype)
        frequencies = frequencies.astype(result.dtype)
        means = jnp.tensordot(frequencies, values, 1)
        mean = jnp.tensordot(shares.astype(result.dtype), means, 1)
        values = FaultRecorder.check_mean(values, result, mean, self.where, self.name)
        if len(means) == 1:
            return values, jnp.zeros_like(means)
        weights = jnp.where(frequencies > 0, 1 - frequencies, 0)
        total = jnp.expand_dims(jnp.sum(weights, 1), tuple(range(1, means.ndim)))
        is_single = total == 0
        baselines = jnp.tensordot(weights, values, 1) / jnp.where(is_single, 1, total)
        return values, jnp.where(is_single, means, baselines)[::-1]
