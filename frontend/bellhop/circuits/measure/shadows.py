"""Classical shadows: the outcomes of wires in random bases, and expectation values of these."""

import itertools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import pennylane as qml
from pennylane.operation import Operator

from bellhop._pennylane.patches.shadow_seeds import user_seed
from bellhop.base.types import Operand, Wire
from bellhop.circuits.ir.device_measurements import SnapshotMeans, Snapshots
from bellhop.circuits.ir.precision import real_type
from bellhop.circuits.ir.statistics import ExactValues, Make, Statistic
from bellhop.circuits.measure.measurement_base import Process
from bellhop.circuits.measure.observables import NamedFactor, Term, terms_of
from bellhop.circuits.measure.pauli_words import as_words
from bellhop.circuits.measure.sampling import Rounds

_FACTORS = {"PauliX": 0, "PauliY": 1, "PauliZ": 2}
_IDENTITY = 3


class _OfSnapshots(Process):
    def _exact(self, asked: ExactValues) -> Make:
        raise self._needs_shots()

    def _snapshots(self) -> dict[str, Any]:
        """Return what both kinds of a device's snapshots have.

        Raises:
            CompileError: where the circuit runs for each shot, and a seed tells the bases of all.
        """
        seed = user_seed(self.process)
        if self._answers.runs_alone and seed is not None:
            raise self._unsupported(
                "with a seed of its own after mid-circuit measurements on this device",
                "Leave the seed out and give it to qjit(seed=...), or use default.qubit.",
            )
        return {
            "wires": tuple(map(self._wires, self._labels())),
            "seed": seed,
            "copies": self._answers.groups,
        }


class ClassicalShadow(_OfSnapshots):
    """The outcomes and the bases: numbers ``[2, shots, wires]``."""

    def _sampled(self, rounds: Rounds) -> Make:
        take = rounds.snapshots(Snapshots(**self._snapshots()))
        return lambda values: Statistic(
            take(values).astype(jnp.int8), _bits_first, is_of_shots=True
        )


class ShadowExpval(_OfSnapshots):
    """Expectation values: the median of means over ``k`` parts of the shots, for each word."""

    def _sampled(self, rounds: Rounds) -> Make:
        given = self.process.H
        observables = [given] if isinstance(given, Operator) else list(given)
        of_each = [list(as_words(terms_of(each, self._where))) for each in observables]
        terms = [term for words in of_each for term in words]
        ends = np.cumsum([len(words) for words in of_each])
        k = self.process.k
        groups = tuple(itertools.chain.from_iterable(map(self._parts, self._answers.groups)))
        words = tuple(map(self._factors, terms))
        take = rounds.snapshots(SnapshotMeans(**self._snapshots(), groups=groups, words=words))
        coefficients = jnp.stack([jnp.real(coefficient) for coefficient, _ in terms])

        def finish(means: Any) -> Any:
            medians = means[0] if k == 1 else jnp.median(means, axis=0)
            sums = [jnp.sum(part) for part in jnp.split(medians, ends[:-1])]
            return jnp.squeeze(jnp.stack(sums))

        return lambda values: Statistic(
            (take(values) * coefficients).reshape(-1, k, len(terms)), finish
        )

    def _parts(self, shots: int) -> list[int]:
        """Return how many shots each part has; as PennyLane has it, the last one may have less."""
        k = self.process.k
        size = -(-shots // k)
        last = shots - (k - 1) * size
        if last < 1:
            alone = ", of which each runs alone" if self._answers.runs_alone else ""
            raise self._unsupported(
                f"with k={k} and {shots} shots{alone}", "Use k=1, or another number of shots."
            )
        return [size] * (k - 1) + [last]

    def _factors(self, term: Term) -> tuple[int, ...]:
        of_wire = {f.wire: _FACTORS[f.name] for f in term[1] if isinstance(f, NamedFactor)}
        return tuple(of_wire.get(wire, _IDENTITY) for wire in self._labels())


def _bits_first(snapshots: Any) -> Any:
    return jnp.moveaxis(snapshots, 1, 0)


def to_bases(bases: Operand, wires: Sequence[Wire]) -> list[Any]:
    """Return gates that rotate wires from bases that are traced to the computational basis.

    Args:
        bases: integer array ``[wires]``: 0, 1, 2 for X, Y, Z.
        wires: the wires' labels.

    Returns:
        PennyLane operations, two for each wire.
    """
    quarter = jnp.asarray(np.pi / 2, real_type())
    return [
        gate
        for basis, wire in zip(bases, wires, strict=True)
        for gate in (
            qml.RY(jnp.where(basis == 0, -quarter, 0), wire),
            qml.RX(jnp.where(basis == 1, quarter, 0), wire),
        )
    ]
