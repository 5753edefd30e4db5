"""Measure classical shadows: outcomes in random bases, and estimates from them."""

import itertools
from collections.abc import Callable
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from bellhop._pennylane.patches.shadow_seeds import user_seed
from bellhop.circuits.ir.device_measurements import ShadowMeans, ShadowSnapshots
from bellhop.circuits.ir.statistics import ExactValues, Statistic
from bellhop.circuits.measure.measurement_base import Process
from bellhop.circuits.measure.observables import (
    NamedFactor,
    Term,
    find_terms,
    list_observables,
)
from bellhop.circuits.measure.pauli_words import to_pauli_words
from bellhop.circuits.measure.sampling import SamplingRounds

_FACTORS = {"PauliX": 0, "PauliY": 1, "PauliZ": 2}
_IDENTITY = 3


class _ShadowProcess(Process):
    """Base class for ``qml.classical_shadow`` and ``qml.shadow_expval``."""

    needs_snapshots: ClassVar[bool] = True

    def _request_exact(self, asked: ExactValues) -> Callable[[Any], Statistic]:
        """Raise an error, as the measurement needs shots."""
        raise self._needs_shots_error()

    def _get_snapshot_options(self) -> dict[str, Any]:
        """Return keyword arguments for `ShadowSnapshots` or `ShadowMeans`: wires, seed and shots.

        Raises:
            CompileError: if the process has a seed for the bases of all shots, and each shot is a
                separate execution.
        """
        seed = user_seed(self.process)
        if self._answers.has_run_per_shot and seed is not None:
            raise self._unsupported_error(
                "with a seed of its own after mid-circuit measurements on this device",
                "Use qjit(seed=...) instead of the seed of the measurement, or default.qubit.",
            )
        return {
            "wires": tuple(map(self._wires, self._get_labels())),
            "seed": seed,
            "shot_vector": self._answers.groups,
        }


class ClassicalShadow(_ShadowProcess):
    """Measures ``qml.classical_shadow``: an array ``[2, shots, wires]``.

    The first entry has the bits, and the second one the bases: 0, 1, 2 for X, Y, Z.
    """

    def _request_samples(self, rounds: SamplingRounds) -> Callable[[Any], Statistic]:
        """Request the bits and random bases of all shots.

        Returns:
            a function from the result of ``rounds.sample()`` to a ``Statistic``, whose result has
            the axis of bits and bases first.
        """
        take = rounds.request_snapshots(ShadowSnapshots(**self._get_snapshot_options()))
        return lambda values: Statistic(
            take(values).astype(jnp.int8), _move_bits_first, is_per_shot=True
        )


class ShadowExpval(_ShadowProcess):
    """Measures ``qml.shadow_expval``: expectation values from a classical shadow.

    As in PennyLane, the shots are split into ``k`` parts, and the median of the parts' means is
    taken for each Pauli word of the observable.
    """

    def _request_samples(self, rounds: SamplingRounds) -> Callable[[Any], Statistic]:
        """Request means of Pauli words over ``k`` parts of each group of shots.

        Returns:
            a function from the result of ``rounds.sample()`` to the ``Statistic`` of the
            expectation values, which has values ``[groups, k, words]``. Backends combine its values
            over all executions of the circuit, and then compute the result.
        """
        observables = list_observables(self.process.H)
        of_each = [list(to_pauli_words(find_terms(each, self._where))) for each in observables]
        terms = [term for words in of_each for term in words]
        ends = np.cumsum([len(words) for words in of_each])
        k = self.process.k
        groups = tuple(itertools.chain.from_iterable(map(self._split_shots, self._answers.groups)))
        words = tuple(map(self._find_factors, terms))
        take = rounds.request_snapshots(
            ShadowMeans(**self._get_snapshot_options(), groups=groups, words=words)
        )
        coefficients = jnp.stack([jnp.real(coefficient) for coefficient, _ in terms])

        def finish(means: Any) -> Any:
            """Compute the expectation values of one group of shots.

            The median over the ``k`` parts is taken, and the words of an observable are added up.

            Args:
                means: array ``[k, words]``, means times coefficients.

            Returns:
                array ``[observables]``, or a scalar for one observable.
            """
            medians = means[0] if k == 1 else jnp.median(means, axis=0)
            sums = [jnp.sum(part) for part in jnp.split(medians, ends[:-1])]
            return jnp.squeeze(jnp.stack(sums))

        return lambda values: Statistic(
            (take(values) * coefficients).reshape(-1, k, len(terms)), finish
        )

    def _split_shots(self, shots: int) -> list[int]:
        """Split a group of shots into ``k`` parts, of which the last may have fewer shots.

        Returns:
            the number of shots of each part, as in PennyLane.

        Raises:
            CompileError: if the last part has no shot.
        """
        k = self.process.k
        size = -(-shots // k)
        last = shots - (k - 1) * size
        if last < 1:
            if self._answers.has_run_per_shot:
                raise self._unsupported_error(
                    f"with k={k} where each shot is a separate execution", "Use k=1."
                )
            raise self._unsupported_error(
                f"with k={k} and {shots} shots", "Use k=1, or another number of shots."
            )
        return [size] * (k - 1) + [last]

    def _find_factors(self, term: Term) -> tuple[int, ...]:
        """Return the Pauli index of each measured wire: 0, 1, 2 for X, Y, Z and 3 for the identity.

        ``term`` is a Pauli word with its coefficient.
        """
        of_wire = {f.wire: _FACTORS[f.name] for f in term[1] if isinstance(f, NamedFactor)}
        return tuple(of_wire.get(wire, _IDENTITY) for wire in self._get_labels())


def _move_bits_first(snapshots: Any) -> Any:
    """Transpose ``[shots, 2, wires]`` to ``[2, shots, wires]``."""
    return jnp.moveaxis(snapshots, 1, 0)
