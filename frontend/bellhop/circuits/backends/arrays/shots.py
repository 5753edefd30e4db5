"""Draw the shots of circuits whose state is an array of the program.

With mid-circuit measurements, each shot is first assigned to one combination of outcomes, a
*branch*.  Each branch draws samples for its own shots, and the contributions of all branches are
summed.

Averages over shots are differentiated by the likelihood ratio of the samples: the average of ``f``
has the derivative of the average of ``f * p / p0``, where ``p`` is the probability of each sample
and ``p0`` its value (Glynn, Communications of the ACM 33, 75, 1990; also called REINFORCE).  This
is an unbiased estimate from the same samples.  Its variance is at most the variance of a parameter
shift, since the Fisher information of a measurement is at most the Fisher information of the state.
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
)
from bellhop.circuits.ir.likelihood_ratio import make_zero_with_ratio_tangent
from bellhop.circuits.ir.postselection import mask_impossible

_SECOND_DERIVATIVE_ERROR = (
    "averages over shots are differentiated twice, which is not supported on this device: the "
    "score function gives first derivatives only. Use a circuit without shots."
)


@dataclass
class BranchShots:
    """The shots assigned to one branch, for sampling the branch's final state.

    A branch is one combination of mid-circuit outcomes. An instance belongs to one traced execution
    of the circuit. Arrays over shots always have all shots of the circuit; shots of other branches
    get weight zero.

    Attributes:
        key: PRNG key for samples.
        is_in_branch: ``bool[shots]``, whether each shot is assigned to this branch.
        total: scalar, the sum of the probabilities of all branches; less than one with
            postselection.
        groups: number of shots of each group over which results are averaged, one group for each
            entry of the QNode's shot vector.
        n_accepted: ``[groups]``, number of shots of each group that are assigned to any branch.
    """

    key: Any
    is_in_branch: Any
    total: Any
    groups: tuple[int, ...]
    n_accepted: Any
    _rounds: int = 0

    def sample(
        self, simulator: Simulator, state: Any, requests: Sequence[SampleRequest]
    ) -> list[Any]:
        """Sample the final state of this branch, and compute the requested results.

        Each call draws from a new PRNG key, derived from `key` and the number of earlier calls.

        Args:
            simulator: implements measurements of the state.
            state: the branch's final state.
            requests: the results to compute. Either all are classical shadows
                (`ShadowSnapshots`), each of which draws its own samples; or none is, and all
                requests share the same samples.

        Returns:
            a list with one array per request. `Frequencies` give ``[groups, outcomes]`` and
            `ShadowMeans` ``[groups, words]``; both only count shots of this branch. `Samples` give
            bits ``[shots, qubits]``, and other `ShadowSnapshots` ``[shots, 2, wires]``; both have a
            row for every shot, to be masked for shots of other branches (`mask_other_branches`).
        """
        self._rounds += 1
        key = jax.random.fold_in(self.key, self._rounds)
        snapshots = [what for what in requests if isinstance(what, ShadowSnapshots)]
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
            for what in requests
        ]

    def average_over_groups(self, value: Any, probability: Any) -> Any:
        """Multiply a value by the fraction of each group's shots that are in this branch.

        The sum over all branches is the mean of the value in each group of shots. The fraction is
        differentiated like the branch's probability (likelihood ratio).

        Args:
            value: array of any shape, the value that all shots of this branch have.
            probability: scalar, the probability of this branch.

        Returns:
            array ``[groups, *value.shape]``.
        """
        weights = self._compute_weights(jnp.broadcast_to(probability, self.is_in_branch.shape))
        sums = (
            jnp.zeros(len(self.groups), weights.dtype)
            .at[Frequencies.index_groups(self.groups)]
            .add(weights)
        )
        shares = sums / self.n_accepted
        return jnp.tensordot(shares, value, axes=0)

    def mask_other_branches(self, samples: Any) -> Any:
        """Return samples ``[shots, ...]`` with zeros for shots of other branches.

        So the sum over all branches has the sample of each shot.
        """
        is_here = self.is_in_branch.reshape(-1, *[1] * (samples.ndim - 1))
        return jnp.where(is_here, samples, jnp.zeros_like(samples))

    def _compute_frequencies(self, bits: Any, weights: Any, request: Frequencies) -> Any:
        """Compute this branch's contribution to the frequencies of outcomes.

        Args:
            bits: array ``[shots, qubits]``, the sample of each shot.
            weights: array ``[shots]``, see `_compute_weights`.
            request: the wires whose outcomes are counted, and the number of shots of each group: an
                entry of the shot vector or a part of it.

        Returns:
            array ``[groups, outcomes]``.
        """
        outcomes, signs = (bits[:, np.array(each, int)] for each in (request.wires, request.signs))
        sums = request.sum_weights(outcomes, signs, weights)
        # Parts of groups are requested only where no shot is dropped.
        is_whole = request.groups == self.groups
        return sums / (self.n_accepted if is_whole else np.array(request.groups))[:, None]

    def _sample_snapshots(
        self, simulator: Simulator, state: Any, key: Any, request: ShadowSnapshots
    ) -> Any:
        """Draw a classical shadow: each shot measures the wires in its own Pauli bases.

        Args:
            simulator: implements measurements of the state.
            state: the branch's final state.
            key: PRNG key for bases and outcomes.
            request: the wires, and the seed of the bases if the user chose it.

        Returns:
            outcomes and bases as an array ``[shots, 2, wires]``; for `ShadowMeans` this branch's
            contribution to the means of Pauli words, an array ``[groups, words]``.
        """
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
        sums = sums.at[Frequencies.index_groups(request.groups)].add(values)
        # Shots that postselection drops are spread evenly over the parts of a group.
        last_shots = np.cumsum(request.groups) - 1
        copies = np.searchsorted(np.cumsum(self.groups), last_shots, side="right")
        share = np.array(request.groups) / np.array(self.groups)[copies]
        return sums / (self.n_accepted[copies] * share)[:, None]

    def _compute_weights(self, probability: Any) -> Any:
        """Return the weight of each shot, ``[shots]``: 1 in this branch, else 0.

        The tangent of a weight is the tangent of the logarithm of the sample's likelihood
        ``probability / total``. A weighted average of samples thus has the right derivative.

        Args:
            probability: ``[shots]``, the probability of each sample.
        """
        safe = lambda p: jnp.where(self.is_in_branch & (p > 0), p, 1.0)
        ratio = lambda p: 1 + make_zero_with_ratio_tangent(p, p, _SECOND_DERIVATIVE_ERROR)
        weights = jnp.where(self.is_in_branch, ratio(safe(probability)), 0.0)
        return weights / ratio(jnp.where(self.total > 0, self.total, 1.0))


def draw_branches(key: Any, weights: Any, shots: int, *, drops: bool) -> tuple[Any, Any]:
    """Assign each shot to a branch at random, by the branches' probabilities.

    A branch is one combination of mid-circuit outcomes.

    Args:
        key: PRNG key.
        weights: ``[branches]``, the probability of each branch. Their sum may be less than one,
            because of postselection.
        shots: number of shots to assign.
        drops: whether each shot is dropped with the missing probability ``1 - sum(weights)``; False
            distributes all shots over the branches.

    Returns:
        ``u32[shots]``, the index of each shot's branch, or ``len(weights)`` for a shot that is not
        accepted; and ``bool[shots]``, whether each shot is accepted. If the sum of the
        probabilities is zero, no shot is accepted.
    """
    weights = jax.lax.stop_gradient(weights)
    total = jnp.sum(weights)
    lost = jnp.maximum(1 - total, 0) if drops else jnp.zeros_like(total)
    branches = draw_outcomes(key, jnp.append(weights, lost), shots)
    is_accepted = (branches < len(weights)) & ~jnp.isnan(mask_impossible(total))
    return jnp.where(is_accepted, branches, len(weights)).astype(jnp.uint32), is_accepted


# Largest number of scalars in the states of shots that are sampled at once.
_MAX_BATCH_SIZE = 1 << 22


def sample_snapshots(
    simulator: Simulator, state: Any, key: Any, wires: Sequence[int], bases: Any
) -> tuple[Any, Any]:
    """Measure wires for each shot in the shot's own Pauli bases.

    Shots are computed in a `jax.lax.map` over batches of limited memory.

    Args:
        simulator: implements measurements of the state.
        state: the state at the end of the circuit.
        key: PRNG key for the outcomes.
        wires: indices of the qubits to measure.
        bases: ``int[shots, wires]``, 0, 1, 2 for X, Y, Z.

    Returns:
        the outcomes, bits ``[shots, wires]``, and the probability of each row of outcomes,
        ``[shots]``.
    """
    first = simulator.prepare_snapshot(state, wires)

    shot = jax.checkpoint(lambda given: simulator.sample_in_bases(first, *given))
    places = jax.random.uniform(key, bases.shape, simulator.dtype)
    size = sum(leaf.size for leaf in jax.tree.leaves(state))
    at_a_time = max(1, _MAX_BATCH_SIZE // size)
    return jax.lax.map(shot, (places, bases), batch_size=min(at_a_time, len(bases)))
