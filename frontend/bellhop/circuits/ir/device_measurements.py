"""The runtime's measurements at the end of a circuit, one class for each kind.

Each class defines its code (``runtime/contract.toml``), the type of its result and its support for
differentiation.  Measurement code computes the users' results from them (``answers.py``).
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray

from bellhop.circuits.ir.device_spec import DeviceSpec
from bellhop.circuits.ir.executors import Executor, Offer, get_kind_code, is_offered
from bellhop.circuits.ir.observable_encoding import Product, encode_product, encode_sum
from bellhop.circuits.ir.precision import Precision


@dataclass(frozen=True)
class Measurement:
    """Static description of one measurement that the runtime performs.

    Measurement code creates the objects and collects them in a ``MeasurementRequest``. Traced
    numbers (coefficients, matrices) are in the request, and a measurement refers to them by index.

    Attributes:
        kind: the kind of measurement, a key of ``executors.toml``, which lists the results that
            each executor computes of this kind (the value, the Jacobian, ...).
        obstacle: text for the error if the result is differentiated by a method that does not
            support this kind; empty if all methods do. For a kind that only the engine's adjoint
            method supports, the derivative, such as "the derivative of qml.state"; for a kind that
            no method supports, the whole error message.
    """

    kind: ClassVar[str]
    obstacle: ClassVar[str] = ""

    def has_jacobian(self, executor: Executor) -> bool:
        """Return whether the engine's or plugin's adjoint method differentiates this kind."""
        return is_offered(Offer.JACOBIAN, self.kind, executor)

    @property
    def is_in_engine(self) -> bool:
        """Whether the engine supports the measurement."""
        return is_offered(Offer.VALUE, self.kind, Executor.ENGINE)

    def encode(self, first_matrix: int) -> tuple[int, ...]:
        """Encode this measurement as integers, the form in which the runtime receives it.

        Args:
            first_matrix: the index of the request's first matrix entry in the runtime's 1-D array
                of numbers, where the coefficients precede the matrices.

        Returns:
            the code of the kind, followed by the operands of the kind (``runtime/contract.toml``).
        """
        return (get_kind_code(self.kind), *self._encode_operands(first_matrix))

    @property
    def is_constant(self) -> bool:
        """Whether the derivative of the result is zero, so that no method computes it."""
        return False

    @abstractmethod
    def _encode_operands(self, first_matrix: int) -> tuple[int, ...]:
        """Return the operands of the kind, the integers that follow the code of the kind.

        ``first_matrix`` is as in `encode`.
        """

    def result_aval(self, device: DeviceSpec) -> ShapedArray:
        """Return the shape and dtype of the result on a device."""
        return ShapedArray(self._get_shape(device), np.dtype(self._get_dtype()))

    def count_values(self, device: DeviceSpec) -> int:
        """Return the number of real numbers in the result; complex numbers count twice."""
        result = self.result_aval(device)
        return result.size * (2 if np.issubdtype(result.dtype, np.complexfloating) else 1)

    @abstractmethod
    def _get_shape(self, device: DeviceSpec) -> tuple[int, ...]:
        """Return the shape of the result on a device."""

    def _get_dtype(self) -> Any:
        """Return the dtype of the result."""
        return Precision.real_type()

    def list_terms(self) -> tuple[tuple[Product, int | None], ...]:
        """List the terms of the observable, as pairs of a term and its coefficient's index.

        A term is a product of factors. The index is into ``MeasurementRequest.coefficients``; None
        for a coefficient of 1. The list is empty for a measurement that has no observable, such as
        ``Probs``.
        """
        return ()

    def to_expval(self) -> "Expval | None":
        """Return ``Expval`` of the same observable for a ``Var``; None for other classes."""
        return None


@dataclass(frozen=True)
class _ObservableMoment(Measurement):
    """Base class of the expectation value and the variance of an observable.

    Attributes:
        terms: the products of the linear combination.
        first_coefficient: index of the first term's coefficient in
            ``MeasurementRequest.coefficients``, where the other terms' coefficients follow; None
            for a single term with coefficient 1.
    """

    terms: tuple[Product, ...] = ()
    first_coefficient: int | None = None

    def _encode_operands(self, first_matrix: int) -> tuple[int, ...]:
        """Encode the observable: a product, or a sum of products with coefficients."""
        if self.first_coefficient is None:
            return encode_product(self.terms[0], first_matrix)
        return encode_sum(self.terms, self.first_coefficient, first_matrix)

    def _get_shape(self, device: DeviceSpec) -> tuple[int, ...]:
        return ()

    def list_terms(self) -> tuple[tuple[Product, int | None], ...]:
        """List the terms of the observable, as pairs of a term and its coefficient's index.

        A term is a product of factors. The index is into ``MeasurementRequest.coefficients``; None
        for a single term with coefficient 1.
        """
        first = self.first_coefficient
        return tuple(
            (term, None if first is None else first + number)
            for number, term in enumerate(self.terms)
        )


@dataclass(frozen=True)
class Expval(_ObservableMoment):
    """The runtime's measurement of an observable's expectation value."""

    kind = "expval"


@dataclass(frozen=True)
class Var(_ObservableMoment):
    """The runtime's measurement of an observable's variance, ``E[A**2] - E[A]**2``."""

    kind = "var"

    def to_expval(self) -> Expval:
        """Return the measurement of the same observable's expectation value."""
        return Expval(self.terms, self.first_coefficient)


@dataclass(frozen=True)
class Probs(Measurement):
    """The runtime's measurement of outcome probabilities, an array ``[2**len(wires)]``.

    Attributes:
        wires: qubit indices, the most significant bit of an outcome first; empty for all qubits.
    """

    wires: tuple[int, ...] = ()

    kind = "probs"

    def _encode_operands(self, first_matrix: int) -> tuple[int, ...]:
        return _encode_list(self.wires)

    def _get_shape(self, device: DeviceSpec) -> tuple[int, ...]:
        return (2 ** (len(self.wires) or device.qubits),)


@dataclass(frozen=True)
class State(Measurement):
    """The runtime's measurement of all amplitudes, a complex array ``[2**qubits]``.

    Attributes:
        name: the user's measurement that is computed from the amplitudes, such as ``state`` or
            ``density_matrix``, for error messages.
    """

    name: str = "state"

    kind = "state"

    @property
    def obstacle(self) -> str:  # type: ignore[override]
        """The unsupported derivative, for errors, such as "the derivative of qml.state"."""
        return f"the derivative of qml.{self.name}"

    def _encode_operands(self, first_matrix: int) -> tuple[int, ...]:
        return ()

    def _get_shape(self, device: DeviceSpec) -> tuple[int, ...]:
        return (2**device.qubits,)

    def _get_dtype(self) -> Any:
        return Precision.complex_type()


_SAMPLES_OR_COUNTS = (
    "the circuit is differentiated and returns sample, counts, or a SampleMeasurement (of more "
    "than 12 wires, or after mid-circuit measurements), which have no derivative. Return expval, "
    "var or probs."
)


@dataclass(frozen=True)
class Samples(Measurement):
    """The runtime's measurement of all wires' bits in each shot.

    The result is a ``uint8`` array ``[shots, qubits]``.

    Attributes:
        is_processed: whether a user's ``SampleMeasurement`` processes the bits. Its derivative is
            computed from ``Frequencies``, so the derivative of the bits is zero instead of an
            error.
    """

    is_processed: bool = False

    kind = "sample"

    @property
    def obstacle(self) -> str:  # type: ignore[override]
        """The error text for a derivative of the bits; empty if it is zero."""
        return "" if self.is_processed else _SAMPLES_OR_COUNTS

    @property
    def is_constant(self) -> bool:
        """Whether the derivative of the bits is zero."""
        return self.is_processed

    def _encode_operands(self, first_matrix: int) -> tuple[int, ...]:
        return _encode_list(())

    def _get_shape(self, device: DeviceSpec) -> tuple[int, ...]:
        return device.shots, device.qubits

    def _get_dtype(self) -> Any:
        return np.uint8

    @staticmethod
    def to_integers(bits: Any) -> Any:
        """Convert rows of bits to integers.

        Args:
            bits: array ``[rows, digits]``; the first digit is the most significant. No digits are
                the integer 0.

        Returns:
            integer array ``[rows]``.
        """
        powers = 2 ** np.arange(bits.shape[1])[::-1]
        return bits.astype(int) @ powers if bits.shape[1] else jnp.zeros(bits.shape[0], int)


@dataclass(frozen=True)
class Frequencies(Measurement):
    """The runtime's measurement of how often each outcome of some wires occurs.

    The result is a real array ``[groups, 2**len(wires)]``: for each group of shots (an entry of the
    shot vector) the relative frequency of each outcome.

    Attributes:
        wires: qubit indices of the wires whose outcomes are counted.
        signs: qubit indices; a shot counts as -1 if the outcomes of these qubits have odd parity.
        groups: the number of shots of each group.
    """

    wires: tuple[int, ...] = ()
    signs: tuple[int, ...] = ()
    groups: tuple[int, ...] = ()

    kind = "frequencies"

    def _encode_operands(self, first_matrix: int) -> tuple[int, ...]:
        """Return ``wires``, ``signs`` and ``groups``, each after its length."""
        return (*_encode_list(self.wires), *_encode_list(self.signs), *_encode_list(self.groups))

    def _get_shape(self, device: DeviceSpec) -> tuple[int, ...]:
        return len(self.groups), 2 ** len(self.wires)

    @staticmethod
    def make_undifferentiable(wires: Sequence[int], groups: Sequence[int]) -> "Frequencies":
        """Return frequencies for ``counts``, whose differentiation is an error.

        Counts are rounded from these frequencies, so they have no derivative.
        """
        return _CountedFrequencies(tuple(wires), (), tuple(groups))

    def sum_weights(self, bits: Any, signs: Any, weights: Any) -> Any:
        """Sum the signed weights of the shots with each outcome, in each group of shots.

        With the weight ``1 / shots`` for each shot of a group, the sums are the frequencies.

        Args:
            bits: array ``[shots, len(wires)]``, the outcomes of ``self.wires``.
            signs: array ``[shots, len(self.signs)]``, the outcomes of ``self.signs``. A shot whose
                row has odd parity has its weight negated.
            weights: array ``[shots]``.

        Returns:
            array ``[groups, 2**len(wires)]``.
        """
        outcome = Samples.to_integers(bits)
        ones = jnp.sum(signs, axis=1)
        signed = jnp.where(ones % 2 == 1, -weights, weights)
        sums = jnp.zeros((len(self.groups), 2 ** bits.shape[1]), signed.dtype)
        return sums.at[self.index_groups(self.groups), outcome].add(signed)

    @staticmethod
    def index_groups(groups: Sequence[int]) -> Any:
        """Return the index of each shot's group, an integer array ``[shots]``.

        A group is an entry of the shot vector: for groups of 2 and 1 shots the indices are ``[0, 0,
        1]``. The program computes the indices, since the size of a constant would grow with the
        shots.
        """
        if len(groups) == 1:
            return jnp.zeros(groups[0], int)
        return jnp.searchsorted(np.cumsum(groups), jnp.arange(sum(groups)), side="right")


@dataclass(frozen=True)
class _CountedFrequencies(Frequencies):
    """Frequencies for ``counts``, which have no derivative."""

    obstacle = _SAMPLES_OR_COUNTS


@dataclass(frozen=True)
class ShadowSnapshots(Measurement):
    """A classical shadow: outcomes of wires in random Pauli bases, and these bases.

    The result is a ``uint8`` array ``[shots, 2, wires]``: for each shot the outcomes, then the
    bases.

    Attributes:
        wires: qubit indices of the measured wires.
        seed: the seed of the bases, which are then the same in each run; None to draw new bases in
            each run.
        shot_vector: the number of shots of each entry of the shot vector; the seed restarts for
            each.
        bases_offset: the index at which the seeded bases (0, 1, 2 for X, Y, Z) begin in the
            ``MeasurementRequest``'s array of matrix entries; None without a seed: the runtime then
            draws the bases. ``MeasurementRequest.from_samples`` sets it.
    """

    wires: tuple[int, ...] = ()
    seed: int | None = None
    shot_vector: tuple[int, ...] = ()
    bases_offset: int | None = None

    kind = "snapshots"
    obstacle = (
        "the circuit is differentiated and returns classical_shadow, whose bits have no "
        "derivative. Return qml.shadow_expval of an observable."
    )

    def draw_bases(self) -> np.ndarray | None:
        """Draw the Pauli basis of each shot and wire with the seed, as PennyLane does.

        Returns:
            integer array ``[shots, wires]`` of 0, 1, 2 for X, Y, Z; None without a seed, as the
            runtime then draws the bases.
        """
        if self.seed is None:
            return None
        generators = [np.random.RandomState(self.seed) for _ in self.shot_vector]
        return np.concatenate(
            [
                generator.randint(0, 3, size=(shots, len(self.wires)))
                for generator, shots in zip(generators, self.shot_vector, strict=True)
            ]
        )

    def _encode_operands(self, first_matrix: int) -> tuple[int, ...]:
        """Return the wires, the number of bases and, with a seed, the offset of the bases.

        Returns:
            the number of wires, the wires, and 0 without a seed; with a seed, the number of bases
            (shots times wires) and the index of the first basis in the runtime's array of numbers.
        """
        if self.bases_offset is None:
            return (*_encode_list(self.wires), 0)
        return (
            *_encode_list(self.wires),
            sum(self.shot_vector) * len(self.wires),
            first_matrix + self.bases_offset,
        )

    def _get_shape(self, device: DeviceSpec) -> tuple[int, ...]:
        return device.shots, 2, len(self.wires)

    def _get_dtype(self) -> Any:
        return np.uint8


@dataclass(frozen=True)
class ShadowMeans(ShadowSnapshots):
    """Estimates of the expectation values of Pauli words from a classical shadow.

    The result is a real array ``[groups, words]``: for each group of shots, the means over its
    shots.

    Attributes:
        groups: the number of shots of each group: an entry of the shot vector, or a part of it.
        words: for each Pauli word, a factor for each wire: 0, 1, 2 for X, Y, Z, 3 for the identity.
    """

    groups: tuple[int, ...] = ()
    words: tuple[tuple[int, ...], ...] = ()

    kind = "snapshot_means"
    obstacle = ""

    def _encode_operands(self, first_matrix: int) -> tuple[int, ...]:
        """Return the operands of the snapshots, the groups, and the number and factors of words."""
        factors = [factor for word in self.words for factor in word]
        groups = _encode_list(self.groups)
        return (*super()._encode_operands(first_matrix), *groups, len(self.words), *factors)

    def _get_shape(self, device: DeviceSpec) -> tuple[int, ...]:
        return len(self.groups), len(self.words)

    def _get_dtype(self) -> Any:
        return Precision.real_type()

    def compute_word_values(self, bits: Any, bases: Any) -> Any:
        """Compute the estimate of each Pauli word from each shot of a classical shadow.

        The estimate is the product of ``3 * (1 - 2 * outcome)`` over all factors but identities. It
        is zero if a wire was measured in another basis than its factor.

        Args:
            bits: integer array ``[shots, wires]``, the outcomes.
            bases: integer array ``[shots, wires]``, the basis of each outcome: 0, 1, 2 for X, Y, Z.

        Returns:
            array ``[shots, words]``, whose mean over shots estimates the expectation values.
        """
        factors = np.array(self.words, int).reshape(-1, bits.shape[1])
        is_identity = factors == 3
        is_measured = jnp.all((bases[:, None] == factors) | is_identity, axis=2)
        signs = jnp.prod(jnp.where(is_identity, 1, 3 * (1 - 2 * bits[:, None])), axis=2)
        return jnp.where(is_measured, signs, 0)


# The measurements that `Answers.sample` computes from samples.
SampleRequest = Frequencies | Samples | ShadowSnapshots


def _encode_list(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Prepend the length to a sequence of integers."""
    return (len(numbers), *numbers)
