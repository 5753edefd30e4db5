"""What a device measures at the end of a circuit: a class for each measurement of the runtime.

Each says its code, as ``runtime/contract.toml`` has it, the shape of its result and how it is
differentiated.  Measurement code computes the results that users see from these (``answers.py``).
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray

from bellhop.circuits.ir.device_spec import DeviceSpec
from bellhop.circuits.ir.observable_encoding import Product, encode_product, encode_sum
from bellhop.circuits.ir.precision import complex_type, real_type


@dataclass(frozen=True)
class Measurement:
    """A measurement, with all of it that is static.

    Attributes:
        kind_code: its code begins with it.
        has_adjoint: whether the adjoint method of a plugin differentiates it.
        engine_has_adjoint: whether that of the engine does.
        in_engine: whether the engine measures it.
        obstacle: why it has no derivative, where it has none, but by the engine's adjoint method;
            where the engine has that, ``diff_method`` adds why it is not taken.
    """

    kind_code: ClassVar[int]
    has_adjoint: ClassVar[bool] = False
    engine_has_adjoint: ClassVar[bool] = False
    in_engine: ClassVar[bool] = True
    obstacle: ClassVar[str] = ""

    def encode(self, first_matrix: int) -> tuple[int, ...]:
        """Return the runtime's code of the measurement.

        Args:
            first_matrix: where the data of matrices begin.
        """
        return (self.kind_code, *self._encode_operands(first_matrix))

    @abstractmethod
    def _encode_operands(self, first_matrix: int) -> tuple[int, ...]:
        """Return what follows the number in the code."""

    def result_aval(self, device: DeviceSpec) -> ShapedArray:
        """Return the type of the result."""
        return ShapedArray(self._get_shape(device), np.dtype(self._get_dtype()))

    def count_values(self, device: DeviceSpec) -> int:
        """Return how many real numbers the result has."""
        result = self.result_aval(device)
        return result.size * (2 if np.issubdtype(result.dtype, np.complexfloating) else 1)

    @abstractmethod
    def _get_shape(self, device: DeviceSpec) -> tuple[int, ...]:
        """Return the shape of the result."""

    def _get_dtype(self) -> Any:
        """Return the dtype of the result."""
        return real_type()

    def list_terms(self) -> tuple[tuple[Product, int | None], ...]:
        """Return terms of its observable, and where their coefficients stand if they have some."""
        return ()

    def to_expval(self) -> "Expval | None":
        """Return the mean that a variance is about; None for other measurements."""
        return None


@dataclass(frozen=True)
class _ObservableMoment(Measurement):
    """A moment of an observable.

    Attributes:
        terms: each a product.
        first_coefficient: first index of the terms' coefficients, or None where the observable is
            its only term.
    """

    terms: tuple[Product, ...] = ()
    first_coefficient: int | None = None

    def _encode_operands(self, first_matrix: int) -> tuple[int, ...]:
        if self.first_coefficient is None:
            return encode_product(self.terms[0], first_matrix)
        return encode_sum(self.terms, self.first_coefficient, first_matrix)

    def _get_shape(self, device: DeviceSpec) -> tuple[int, ...]:
        return ()

    def list_terms(self) -> tuple[tuple[Product, int | None], ...]:
        """Return its terms."""
        first = self.first_coefficient
        return tuple(
            (term, None if first is None else first + number)
            for number, term in enumerate(self.terms)
        )


@dataclass(frozen=True)
class Expval(_ObservableMoment):
    """An expectation value."""

    kind_code = 0
    has_adjoint = engine_has_adjoint = True


@dataclass(frozen=True)
class Var(_ObservableMoment):
    """A variance: ``E[A**2]``, which is linear in the state, less the square of the mean."""

    kind_code = 1
    engine_has_adjoint = True

    def to_expval(self) -> Expval:
        """Return the mean of the observable."""
        return Expval(self.terms, self.first_coefficient)


@dataclass(frozen=True)
class Probs(Measurement):
    """The probabilities of the outcomes of wires; of all wires, where none is named."""

    wires: tuple[int, ...] = ()

    kind_code = 2
    engine_has_adjoint = True

    def _encode_operands(self, first_matrix: int) -> tuple[int, ...]:
        return _encode_list(self.wires)

    def _get_shape(self, device: DeviceSpec) -> tuple[int, ...]:
        return (2 ** (len(self.wires) or device.qubits),)


@dataclass(frozen=True)
class State(Measurement):
    """The amplitudes.

    Attributes:
        name: what users call what is made of them.
    """

    name: str = "state"

    kind_code = 3
    engine_has_adjoint = True

    @property
    def obstacle(self) -> str:  # type: ignore[override]
        """What is not supported, without where that is so."""
        return f"the derivative of qml.{self.name}"

    def _encode_operands(self, first_matrix: int) -> tuple[int, ...]:
        return ()

    def _get_shape(self, device: DeviceSpec) -> tuple[int, ...]:
        return (2**device.qubits,)

    def _get_dtype(self) -> Any:
        return complex_type()


_SAMPLES_OR_COUNTS = (
    "it returns sample or counts and is differentiated; these have no derivative. Return "
    "expval, var or probs."
)


@dataclass(frozen=True)
class Samples(Measurement):
    """The outcomes of all wires, a row for each shot."""

    kind_code = 4
    obstacle = _SAMPLES_OR_COUNTS

    def _encode_operands(self, first_matrix: int) -> tuple[int, ...]:
        return _encode_list(())

    def _get_shape(self, device: DeviceSpec) -> tuple[int, ...]:
        return device.shots, device.qubits

    def _get_dtype(self) -> Any:
        return np.uint8

    @staticmethod
    def to_integers(bits: Any) -> Any:
        """Return the integer whose binary digits are a row of bits, as an array ``[rows]``.

        Args:
            bits: array ``[rows, digits]``; the first digit is the most significant.
        """
        powers = 2 ** np.arange(bits.shape[1])[::-1]
        return bits.astype(int) @ powers if bits.shape[1] else jnp.zeros(bits.shape[0], int)


@dataclass(frozen=True)
class Frequencies(Measurement):
    """How often outcomes come, in each group of shots.

    Attributes:
        wires: the outcomes' wires.
        signs: wires whose ones change the sign.
        groups: the shots of each group.
    """

    wires: tuple[int, ...] = ()
    signs: tuple[int, ...] = ()
    groups: tuple[int, ...] = ()

    kind_code = 5

    def _encode_operands(self, first_matrix: int) -> tuple[int, ...]:
        return (*_encode_list(self.wires), *_encode_list(self.signs), *_encode_list(self.groups))

    def _get_shape(self, device: DeviceSpec) -> tuple[int, ...]:
        return len(self.groups), 2 ** len(self.wires)

    def sum_weights(self, bits: Any, signs: Any, weights: Any) -> Any:
        """Sum the weights of the shots with each outcome, in each group of shots.

        Args:
            bits: array ``[shots, len(wires)]``, the outcomes of ``wires``.
            signs: array ``[shots, len(signs)]``, the outcomes of ``signs``.
            weights: array ``[shots]``.

        Returns:
            array ``[groups, 2**len(wires)]``.
        """
        outcome = Samples.to_integers(bits)
        ones = jnp.sum(signs, axis=1)
        signed = jnp.where(ones % 2 == 1, -weights, weights)
        sums = jnp.zeros((len(self.groups), 2 ** bits.shape[1]), signed.dtype)
        return sums.at[find_shot_groups(self.groups), outcome].add(signed)


@dataclass(frozen=True)
class CountedFrequencies(Frequencies):
    """Frequencies that counts are made of, which have no derivative."""

    obstacle = _SAMPLES_OR_COUNTS


@dataclass(frozen=True)
class ShadowSnapshots(Measurement):
    """The outcomes of wires in a random basis each, and the bases: a classical shadow.

    Attributes:
        wires: the outcomes' wires.
        seed: of the bases; None where they are other ones in each run.
        copies: the shots of each copy of the result, each of which begins with the seed anew.
        recipes: index of the bases in the data of matrices, where there is a seed.
    """

    wires: tuple[int, ...] = ()
    seed: int | None = None
    copies: tuple[int, ...] = ()
    recipes: int | None = None

    kind_code = 6
    in_engine = False  # it has no states whose bases differ from shot to shot
    obstacle = (
        "it returns classical_shadow and is differentiated; its bits have no derivative. Return "
        "qml.shadow_expval of an observable."
    )

    def draw_bases(self) -> np.ndarray | None:
        """Return the bases that the seed gives: 0, 1, 2 for X, Y, Z, a row for each shot."""
        if self.seed is None:
            return None
        generators = [np.random.RandomState(self.seed) for _ in self.copies]
        return np.concatenate(
            [
                generator.randint(0, 3, size=(shots, len(self.wires)))
                for generator, shots in zip(generators, self.copies, strict=True)
            ]
        )

    def _encode_operands(self, first_matrix: int) -> tuple[int, ...]:
        if self.recipes is None:
            return (*_encode_list(self.wires), 0)
        return (
            *_encode_list(self.wires),
            sum(self.copies) * len(self.wires),
            first_matrix + self.recipes,
        )

    def _get_shape(self, device: DeviceSpec) -> tuple[int, ...]:
        return device.shots, 2, len(self.wires)

    def _get_dtype(self) -> Any:
        return np.uint8


@dataclass(frozen=True)
class ShadowMeans(ShadowSnapshots):
    """The means of Pauli words over snapshots, in each group of shots.

    Attributes:
        groups: the shots of each group.
        words: for each of them a factor for each wire: 0, 1, 2 for X, Y, Z and 3 for the identity.
    """

    groups: tuple[int, ...] = ()
    words: tuple[tuple[int, ...], ...] = ()

    kind_code = 7
    obstacle = ""

    def _encode_operands(self, first_matrix: int) -> tuple[int, ...]:
        factors = [factor for word in self.words for factor in word]
        groups = _encode_list(self.groups)
        return (*super()._encode_operands(first_matrix), *groups, len(self.words), *factors)

    def _get_shape(self, device: DeviceSpec) -> tuple[int, ...]:
        return len(self.groups), len(self.words)

    def _get_dtype(self) -> Any:
        return real_type()

    def compute_word_values(self, bits: Any, bases: Any) -> Any:
        """Return the value of each Pauli word in each snapshot.

        The value is 3 for each factor, times the sign of the factor's outcome, and zero if a
        factor was measured in another basis.

        Args:
            bits: integer array ``[shots, wires]``, the outcomes.
            bases: integer array ``[shots, wires]``: 0, 1, 2 for X, Y, Z.

        Returns:
            array ``[shots, words]``.
        """
        factors = np.array(self.words, int).reshape(-1, bits.shape[1])
        is_identity = factors == 3
        is_measured = jnp.all((bases[:, None] == factors) | is_identity, axis=2)
        signs = jnp.prod(jnp.where(is_identity, 1, 3 * (1 - 2 * bits[:, None])), axis=2)
        return jnp.where(is_measured, signs, 0)


@dataclass(frozen=True)
class ShotMembership(Measurement):
    """For each shot of the circuit, whether this run is its, where shots share runs."""

    kind_code = 8

    def _encode_operands(self, first_matrix: int) -> tuple[int, ...]:
        return ()

    def _get_shape(self, device: DeviceSpec) -> tuple[int, ...]:
        return (device.shots,)

    def _get_dtype(self) -> Any:
        return np.uint8


@dataclass(frozen=True)
class Score(Measurement):
    """The logarithm of how likely all was that a run of one shot has drawn, less what that is.

    So it is zero, and no runtime measures it: what it has is a derivative, which the engine makes
    (``backends/compiled/differentiable/score_function.py``).
    """

    kind_code = -1
    engine_has_adjoint = True

    def _encode_operands(self, first_matrix: int) -> tuple[int, ...]:
        return ()

    def _get_shape(self, device: DeviceSpec) -> tuple[int, ...]:
        return ()


# What measurement code asks of one sample of all shots.
SampleRequest = Frequencies | Samples | ShadowSnapshots


def find_shot_groups(groups: Sequence[int]) -> Any:
    """Return the index of each shot's group.

    The program computes the indices: as a constant, they would grow with the shots.

    Args:
        groups: the number of shots of each group.

    Returns:
        integer array ``[shots]``.
    """
    if len(groups) == 1:
        return jnp.zeros(groups[0], int)
    return jnp.searchsorted(np.cumsum(groups), jnp.arange(sum(groups)), side="right")


def _encode_list(numbers: tuple[int, ...]) -> tuple[int, ...]:
    return (len(numbers), *numbers)
