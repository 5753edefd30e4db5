"""Shift rules: derivatives of circuits as sums of their values at shifted parameters.

With a gate ``exp(i x G)``, every expectation value is a trigonometric polynomial in ``x``, whose
frequencies ``f`` are the differences of the eigenvalues of ``G``.  The frequencies determine an
exact rule (Wierichs, Izaac, Wang and Lin, Quantum 6, 677, 2022).

The frequencies of a parameter are stored as bits: bit ``k`` is the frequency ``(k + 1) / 2``.  If
a parameter may belong to one of several gates, the union of their bits gives a valid rule.

Every expectation value is quadratic in the amplitudes of a prepared state, so a central difference
with any step is exact for amplitudes.

SPSA estimates the derivatives in all parameters at once, from values at a few points where all
parameters are shifted.  For a random direction ``d`` of ones and minus ones the estimate is ::

    (f(x + h d) - f(x - h d)) / (2 h)  *  1 / d

whose mean over directions is approximately the gradient (Spall, IEEE Trans. Autom. Control 37,
332, 1992).  Each entry of ``d`` is its own inverse.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
from pennylane.gradients.finite_difference import finite_diff_coeffs
from pennylane.operation import GeneratorUndefinedError

from bellhop.circuits.ir.precision import Precision
from bellhop.circuits.ir.seeds import make_random_key

# The largest number of wires for which a generator's eigenvalues are computed.
_GENERATOR_WIRES = 6
_NO_TERMS = np.zeros((0, 2))
_AMPLITUDE_TERMS = np.array([[0.5, 1.0], [-0.5, -1.0]])


class FrequencyBits:
    """Encodes the frequencies of a gate's parameter as the bits of an int.

    As a function of a parameter ``x`` with frequencies ``f``, an expectation value is a sum of
    ``cos(f x)`` and ``sin(f x)``.  Bit ``k`` is the frequency ``(k + 1) / 2``, for ``k`` from 0 to
    6. The class is not instantiated.

    Attributes:
        NONE: the bits of a parameter that does not change the results.
        ONE: the bits of the frequency 1, for a parameter that is the phase of some amplitudes.
        AMPLITUDE: the code, instead of frequencies, for the real or imaginary part of an amplitude.
        UNKNOWN: the code for a parameter without a shift rule.
    """

    NONE = 0
    ONE = 2
    AMPLITUDE = 128
    UNKNOWN = 255

    @staticmethod
    @functools.cache
    def find(gate: Any, n_wires: int, is_controlled: bool) -> int:
        """Find the frequencies of a gate's parameters, as bits.

        ``qml.RX`` has the frequency 1, and so the bits 0b10; with controls it also has the
        frequency 1/2, and the bits 0b11.

        Args:
            gate: the gate's class.
            n_wires: the number of wires, without the wires of added controls.
            is_controlled: whether the gate has added controls.

        Returns:
            the bits, which are the same for each parameter of the gate. ``AMPLITUDE`` for
            ``qml.StatePrep``, ``NONE`` for ``qml.BasisState``. ``UNKNOWN`` for a gate without a
            generator, with several parameters (except ``qml.Rot``), on too many wires, or with a
            frequency that has no bit.
        """
        if gate in _WITHOUT_GENERATOR:
            return _WITHOUT_GENERATOR[gate]
        eigenvalues = _find_eigenvalues(gate, n_wires)
        if eigenvalues is None:
            return FrequencyBits.UNKNOWN
        if is_controlled:
            eigenvalues = np.append(eigenvalues, 0.0)
        differences = np.abs(eigenvalues[:, None] - eigenvalues)
        halves = np.unique(np.round(2 * differences, 9))
        if np.any(halves != np.round(halves)) or np.max(halves) > 7:
            return FrequencyBits.UNKNOWN
        return sum(1 << (int(half) - 1) for half in halves if half > 0)


# Frequencies of operations that are not rotations.
_WITHOUT_GENERATOR: dict[Any, int] = {
    qml.BasisState: FrequencyBits.NONE,
    qml.StatePrep: FrequencyBits.AMPLITUDE,
    qml.QubitUnitary: FrequencyBits.UNKNOWN,
}


def _find_eigenvalues(gate: Any, n_wires: int) -> Any:
    """Return the eigenvalues of a gate's generator ``G`` in ``exp(i x G)``.

    Args:
        gate: the gate's class.
        n_wires: the number of wires, without the wires of added controls.

    Returns:
        real NumPy array; None if the gate has no generator, or too many wires or parameters.
    """
    if gate in (qml.MultiRZ, qml.PauliRot, qml.Rot):
        return np.array([-0.5, 0.5])
    if gate is qml.GlobalPhase:
        return np.array([-1.0])
    if gate.num_params != 1 or n_wires > _GENERATOR_WIRES:
        return None
    with qml.QueuingManager.stop_recording():
        operation = gate(0.0, wires=range(n_wires))
        try:
            generator = operation.generator()
        except GeneratorUndefinedError:
            return None
        return np.linalg.eigvalsh(qml.matrix(generator, wire_order=range(n_wires)))


@dataclass(frozen=True)
class ShiftRules:
    """Rules for the derivative with respect to each parameter of a circuit.

    A rule is a linear combination of the circuit's values at shifted parameters: ``RX(x)`` has the
    rule ``0.5 f(x + pi/2) - 0.5 f(x - pi/2)``. Parameters of gates in loops with a dynamic trip
    count are *dynamic-count*, as their number is not known during tracing; all other parameters are
    *static-count*.

    Attributes:
        rule_indices: int32 array ``[n_params]``, the index in ``terms`` of each static-count
            parameter's rule.
        terms: for each rule an array ``[n_terms, 2]``, the coefficient and the shift of each term;
            no terms for a derivative of zero. The last rule is for all dynamic-count parameters.
    """

    rule_indices: np.ndarray
    terms: tuple[np.ndarray, ...]

    @classmethod
    def from_frequencies(cls, parameters: bytes, dynamic_bits: int) -> "ShiftRules":
        """Make exact parameter-shift rules from the frequencies of the parameters.

        Args:
            parameters: for each static-count parameter a byte that encodes its frequencies, see
                `FrequencyBits`.
            dynamic_bits: the code of the frequencies of all dynamic-count parameters together.

        Returns:
            the rules. Parameters with equal frequencies share a rule; the last rule is for the
            dynamic-count parameters.
        """
        return cls._make_rules(parameters, dynamic_bits, _compute_exact_terms)

    @classmethod
    def from_shifts(cls, parameters: bytes, shifts: Sequence[Sequence[float]]) -> "ShiftRules":
        """Make exact parameter-shift rules with the user's shifts.

        Derivatives with respect to dynamic-count parameters are not supported: their rule has no
        terms, as for a derivative of zero, so the caller must reject circuits with such parameters.

        Args:
            parameters: for each static-count parameter a byte that encodes its frequencies, see
                `FrequencyBits`.
            shifts: the shifts of each parameter, one per frequency.

        Raises:
            ValueError: if the number of shifts differs from the number of parameters or of
                frequencies.
        """
        if len(shifts) != len(parameters):
            # The end of a sentence about the option `shifts`, as is the error below.
            raise ValueError(
                f"expected {len(parameters)} tuples of shifts, one for each gate parameter, got "
                f"{len(shifts)}"
            )
        terms = []
        for number, (bits, given) in enumerate(zip(parameters, shifts, strict=True)):
            present = _list_frequencies(bits)
            if len(present) != len(given):
                raise ValueError(
                    f"expected {len(present)} shifts for gate parameter {number}, one for each of "
                    f"the gate's frequencies, got {len(given)}"
                )
            # Bits of a basis state, and amplitudes, have no frequencies.
            terms.append(
                np.asarray(qml.gradients.generate_shift_rule(present, tuple(given)))
                if present
                else _compute_exact_terms(bits)
            )
        return cls(np.arange(len(terms), dtype=np.int32), (*terms, _NO_TERMS))

    @classmethod
    def from_differences(
        cls, parameters: bytes, dynamic_bits: int, terms: np.ndarray
    ) -> "ShiftRules":
        """Make the same finite-difference rule for all parameters that change the results.

        Args:
            parameters: for each static-count parameter a byte that encodes its frequencies, see
                `FrequencyBits`; the derivative is zero for ``NONE``. For SPSA, a byte for each
                random direction in place of a parameter, not ``NONE``.
            dynamic_bits: the code of the frequencies of all dynamic-count parameters together.
            terms: ``[n_terms, 2]``, the coefficient and the shift of each term of the rule, see
                `compute_difference_terms`.
        """
        return cls._make_rules(
            parameters,
            dynamic_bits,
            lambda bits: _NO_TERMS if bits == FrequencyBits.NONE else terms,
        )

    @staticmethod
    def compute_difference_terms(h: float, approx_order: int, strategy: str) -> np.ndarray:
        """Compute a finite-difference rule for a first derivative.

        Args:
            h: the step.
            approx_order: PennyLane's order of approximation.
            strategy: PennyLane's ``"forward"``, ``"backward"`` or ``"center"``.

        Returns:
            ``[n_terms, 2]``, the coefficient and the shift of each term.
        """
        coefficients, shifts = finite_diff_coeffs(1, approx_order, strategy)
        return np.stack([coefficients / h, shifts * h], axis=1)

    @classmethod
    def _make_rules(
        cls, parameters: bytes, dynamic_bits: int, find_rule_terms: Callable[[int], np.ndarray]
    ) -> "ShiftRules":
        """Make a rule for each code of frequencies, and one for dynamic-count parameters.

        Static-count parameters with equal codes share a rule.

        Args:
            parameters: for each static-count parameter a byte that encodes its frequencies, see
                `FrequencyBits`.
            dynamic_bits: the code of the frequencies of all dynamic-count parameters together.
            find_rule_terms: maps a code to the terms of its rule, an array ``[n_terms, 2]``.

        Returns:
            the rules in ascending order of the codes, and last the rule for ``dynamic_bits``.
        """
        distinct, rule_indices = np.unique(np.frombuffer(parameters, np.uint8), return_inverse=True)
        terms = (*map(find_rule_terms, map(int, distinct)), find_rule_terms(dynamic_bits))
        return cls(rule_indices.astype(np.int32), terms)

    @staticmethod
    def draw_directions(n_params: int, num_directions: int, sampler_rng: int | None) -> Any:
        """Draw random directions of ones and minus ones for SPSA.

        Args:
            n_params: the number of parameters.
            num_directions: the number of directions.
            sampler_rng: a seed, to draw PennyLane's directions for it during tracing; None to draw
                new directions whenever the program runs.

        Returns:
            real array ``[num_directions, n_params]``.
        """
        if sampler_rng is None:
            return jax.random.rademacher(
                make_random_key(), (num_directions, n_params), Precision.real_type()
            )
        generator = np.random.default_rng(sampler_rng)
        rows = [generator.choice([-1.0, 1.0], size=n_params) for _ in range(num_directions)]
        return jnp.asarray(np.stack(rows), Precision.real_type())

    def attributes(self) -> dict[str, Any]:
        """Encode these rules as flat lists, the attributes that the runtime gets.

        Returns:
            lists by attribute name: ``coefficients`` and ``amounts`` (shifts) have an entry for
            each term of all rules, one rule after the other; rule ``i`` ends before the index
            ``ends[i]`` of these lists.
        """
        together = np.concatenate(self.terms)
        return {
            "ends": np.cumsum([len(terms) for terms in self.terms]).tolist(),
            "coefficients": together[:, 0].tolist(),
            "amounts": together[:, 1].tolist(),
        }


@functools.cache
def _compute_exact_terms(bits: int) -> np.ndarray:
    """Compute the exact shift rule of a parameter from its frequencies.

    Args:
        bits: the parameter's frequencies, as `FrequencyBits`.

    Returns:
        ``[n_terms, 2]``, the coefficient and the shift of each term; no terms for ``NONE``. For
        ``UNKNOWN`` the terms are not a valid rule, which is not checked here.
    """
    if bits == FrequencyBits.NONE:
        return _NO_TERMS
    if bits == FrequencyBits.AMPLITUDE:
        return _AMPLITUDE_TERMS
    return np.asarray(qml.gradients.generate_shift_rule(_list_frequencies(bits)))


def _list_frequencies(bits: int) -> tuple[float, ...]:
    """Decode the frequencies in `FrequencyBits`: the bits 3 give ``(0.5, 1.0)``."""
    return tuple((k + 1) / 2 for k in range(7) if bits >> k & 1)
