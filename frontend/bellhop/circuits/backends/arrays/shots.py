"""Shots of circuits in the program: samples of a state that is an array of it.

With mid-circuit measurements each shot first falls to one combination of outcomes, a *branch*
through the circuit; each branch draws samples for its own shots, and what it makes of them adds up
with what the others do.

Means over shots are differentiated by the likelihood ratio of the samples: the mean of ``f`` has
the derivative of the mean of ``f * p / p0``, where ``p`` is the probability of each sample and
``p0`` its value (Glynn, Communications of the ACM 33, 75, 1990; also called REINFORCE).  That is
an unbiased estimate from the same samples, and its variance is that of a parameter shift or less,
since the Fisher information of a measurement is at most that of the state.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.circuits.backends.arrays.simulator_base import Simulator, draw_outcomes
from bellhop.circuits.ir.device_measurements import (
    Frequencies,
    SampleRequest,
    ShadowMeans,
    ShadowSnapshots,
    find_shot_groups,
)
from bellhop.circuits.ir.likelihood_ratio import make_zero_with_ratio_tangent
from bellhop.circuits.ir.postselection import mask_impossible

_SECOND_DERIVATIVE_ERROR = (
    "the samples of a device in the program are differentiated twice; their likelihood tells the "
    "first derivative only. Use qml.device('lightning.qubit', wires=...), or no shots."
)


@dataclass
class BranchShots:
    """The shots of a circuit, seen from one branch through its outcomes.

    Attributes:
        key: for random numbers.
        is_in_branch: for each shot, whether it fell to this branch.
        total: the probability of all branches, less than one where some are postselected.
        groups: the shots of each group that there is a mean of.
        n_accepted: how many of these fell to any branch.
    """

    key: Any
    is_in_branch: Any
    total: Any
    groups: tuple[int, ...]
    n_accepted: Any
    _rounds: int = 0

    def sample(self, simulator: Simulator, state: Any, asked: Sequence[SampleRequest]) -> list[Any]:
        """Return what is asked of one round of samples of the state of this branch."""
        self._rounds += 1
        key = jax.random.fold_in(self.key, self._rounds)
        snapshots = [what for what in asked if isinstance(what, ShadowSnapshots)]
        if snapshots:
            keys = jax.random.split(key, len(snapshots))
            return [
                self._sample_snapshots(simulator, state, *each)
                for each in zip(keys, snapshots, strict=True)
            ]
        bits, probabilities = simulator.sample(state, key, len(self.is_in_branch))
        weights = self._compute_weights(probabilities)
        return [
            self._compute_frequencies(bits, weights, what)
            if isinstance(what, Frequencies)
            else bits
            for what in asked
        ]

    def average_over_groups(self, value: Any, probability: Any) -> Any:
        """Return what this branch adds to the mean of a value over each group.

        Args:
            value: of this branch.
            probability: of this branch.
        """
        weights = self._compute_weights(jnp.broadcast_to(probability, self.is_in_branch.shape))
        sums = (
            jnp.zeros(len(self.groups), weights.dtype)
            .at[find_shot_groups(self.groups)]
            .add(weights)
        )
        shares = sums / self.n_accepted
        return jnp.tensordot(shares, value, axes=0)

    def mask_other_branches(self, samples: Any) -> Any:
        """Return samples with zeros in place of the shots of other branches."""
        is_here = self.is_in_branch.reshape(-1, *[1] * (samples.ndim - 1))
        return jnp.where(is_here, samples, jnp.zeros_like(samples))

    def _compute_frequencies(self, bits: Any, weights: Any, request: Frequencies) -> Any:
        outcomes, signs = (bits[:, np.array(each, int)] for each in (request.wires, request.signs))
        sums = request.sum_weights(outcomes, signs, weights)
        return sums / self.n_accepted[:, None]

    def _sample_snapshots(
        self, simulator: Simulator, state: Any, key: Any, request: ShadowSnapshots
    ) -> Any:
        """Return samples, each shot in a basis of its own, or the means of words over them."""
        key_of_bases, key = jax.random.split(key)
        shots, wires = len(self.is_in_branch), len(request.wires)
        bases = request.draw_bases()
        if bases is None:
            bases = jax.random.randint(key_of_bases, (shots, wires), 0, 3)
        bits, probabilities = sample_snapshots(
            simulator, state, key, request.wires, jnp.asarray(bases)
        )
        if not isinstance(request, ShadowMeans):
            return jnp.stack([bits, bases], axis=1)
        values = request.compute_word_values(bits, bases)
        values *= self._compute_weights(probabilities)[:, None]
        sums = jnp.zeros((len(request.groups), values.shape[1]), values.dtype)
        sums = sums.at[find_shot_groups(request.groups)].add(values)
        # Of a part of a copy, that part of the shots that were kept.
        last_shots = np.cumsum(request.groups) - 1
        copies = np.searchsorted(np.cumsum(self.groups), last_shots, side="right")
        share = np.array(request.groups) / np.array(self.groups)[copies]
        return sums / (self.n_accepted[copies] * share)[:, None]

    def _compute_weights(self, probability: Any) -> Any:
        """Return one for each shot that is here, with the derivative of its likelihood."""
        safe = lambda p: jnp.where(self.is_in_branch & (p > 0), p, 1.0)
        ratio = lambda p: 1 + make_zero_with_ratio_tangent(p, p, _SECOND_DERIVATIVE_ERROR)
        weights = jnp.where(self.is_in_branch, ratio(safe(probability)), 0.0)
        return weights / ratio(jnp.where(self.total > 0, self.total, 1.0))


def draw_branches(key: Any, weights: Any, shots: int, *, drops: bool) -> tuple[Any, Any]:
    """Draw the branch that each shot falls to.

    Args:
        key: for random numbers.
        weights: the probability of each branch.
        shots: how many.
        drops: whether a shot is lost with the probability that they do not add up to.

    Returns:
        the number of the branch of each shot, beyond all for those that are not kept; and whether
        it is kept, as all are or none if none is dropped.
    """
    weights = jax.lax.stop_gradient(weights)
    total = jnp.sum(weights)
    lost = jnp.maximum(1 - total, 0) if drops else jnp.zeros_like(total)
    branches = draw_outcomes(key, jnp.append(weights, lost), shots)
    is_accepted = (branches < len(weights)) & ~jnp.isnan(mask_impossible(total))
    return jnp.where(is_accepted, branches, len(weights)).astype(jnp.uint32), is_accepted


# Shots at a time, whose states hold so many numbers together.
_MAX_BATCH_SIZE = 1 << 22


def sample_snapshots(
    simulator: Simulator, state: Any, key: Any, wires: Sequence[int], bases: Any
) -> tuple[Any, Any]:
    """Sample wires, each shot in bases of its own.

    Args:
        simulator: what measuring does to the state.
        state: of the circuit.
        key: for random numbers.
        wires: what is sampled.
        bases: 0, 1, 2 for X, Y, Z, a row for each shot.

    Returns:
        the outcomes, a row for each shot, and the probability of each row.
    """
    first = simulator.prepare_snapshot(state, wires)

    shot = jax.checkpoint(lambda given: simulator.sample_in_bases(first, *given))
    places = jax.random.uniform(key, bases.shape, simulator.dtype)
    size = sum(leaf.size for leaf in jax.tree.leaves(state))
    at_a_time = max(1, _MAX_BATCH_SIZE // size)
    return jax.lax.map(shot, (places, bases), batch_size=min(at_a_time, len(bases)))
