"""Shift rules: derivatives of circuits as sums of their values at other parameters.

A gate ``exp(i x G)`` makes every expectation value a sum of sines of ``f x``, where the
frequencies ``f`` are the differences of the eigenvalues of ``G``.  From them follows a rule
that is exact (Wierichs, Izaac, Wang and Lin, Quantum 6, 677, 2022).

The frequencies of a parameter are kept as bits: bit ``k`` stands for ``(k + 1) / 2``.  So the
rule for a parameter that belongs to one gate or another is that of the bits of both.

Every expectation value is quadratic in the amplitudes that a state is prepared from, so a
central difference is exact there, whatever its step.

SPSA is one by all parameters at once, of values at a few points where all are shifted: for a random
direction ``d`` of ones and minus ones the derivative is about ::

    (f(x + h d) - f(x - h d)) / (2 h)  *  1 / d

whose mean over directions is the derivative (Spall, IEEE Trans. Autom. Control 37, 332, 1992).  A
direction of ones and minus ones is its own inverse.
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

from bellhop.circuits.ir.precision import real_type
from bellhop.circuits.ir.seeds import make_random_key

# No shift changes the results.
NO_FREQUENCIES = 0
# A part of an amplitude, real or imaginary.
AMPLITUDE = 128
# A phase of some amplitudes.
FREQUENCY_ONE = 2
# There is no rule.
UNKNOWN_FREQUENCIES = 255

# Of what is no rotation: bits are not shifted, and a matrix has no generator.
_WITHOUT_GENERATOR: dict[Any, int] = {
    qml.BasisState: NO_FREQUENCIES,
    qml.StatePrep: AMPLITUDE,
    qml.QubitUnitary: UNKNOWN_FREQUENCIES,
}
# Up to here, the eigenvalues of a generator are computed.
_GENERATOR_WIRES = 6
_NO_TERMS = np.zeros((0, 2))
_AMPLITUDE_TERMS = np.array([[0.5, 1.0], [-0.5, -1.0]])


@functools.cache
def find_frequencies(gate: Any, n_wires: int, is_controlled: bool) -> int:
    """Return the bits of the frequencies of each of a gate's parameters.

    Args:
        gate: its class.
        n_wires: how many wires it has, without those of controls that were taken off it.
        is_controlled: whether any were.
    """
    if gate in _WITHOUT_GENERATOR:
        return _WITHOUT_GENERATOR[gate]
    eigenvalues = _find_eigenvalues(gate, n_wires)
    if eigenvalues is None:
        return UNKNOWN_FREQUENCIES
    if is_controlled:
        eigenvalues = np.append(eigenvalues, 0.0)
    differences = np.abs(eigenvalues[:, None] - eigenvalues)
    halves = np.unique(np.round(2 * differences, 9))
    if np.any(halves != np.round(halves)) or np.max(halves) > 7:
        return UNKNOWN_FREQUENCIES
    return sum(1 << (int(half) - 1) for half in halves if half > 0)


def _find_eigenvalues(gate: Any, n_wires: int) -> Any:
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
    """Derivatives by each of a circuit's parameters, as sums of terms.

    Attributes:
        rule_indices: the number of the rule of each parameter.
        terms: of each rule a matrix: coefficient and shift of each term.  The last rule is that
            of all parameters that only the run counts.
    """

    rule_indices: np.ndarray
    terms: tuple[np.ndarray, ...]

    def attributes(self) -> dict[str, Any]:
        """Return the rules as the runtime takes them."""
        together = np.concatenate(self.terms)
        return {
            "ends": np.cumsum([len(terms) for terms in self.terms]).tolist(),
            "coefficients": together[:, 0].tolist(),
            "amounts": together[:, 1].tolist(),
        }


def make_parameter_shift_rules(parameters: bytes, dynamic_bits: int) -> ShiftRules:
    """Return the exact rules.

    Args:
        parameters: the bits of the frequencies of each parameter.
        dynamic_bits: those of all parameters that only the run counts.
    """
    return _make_rules(parameters, dynamic_bits, _compute_exact_terms)


def make_custom_shift_rules(parameters: bytes, shifts: Sequence[Sequence[float]]) -> ShiftRules:
    """Return the exact rules at shifts that are given for each parameter.

    Raises:
        ValueError: says which shifts are not as many as the frequencies.
    """
    if len(shifts) != len(parameters):
        raise ValueError(f"there are {len(parameters)} parameters, and shifts of {len(shifts)}")
    terms = []
    for number, (bits, given) in enumerate(zip(parameters, shifts, strict=True)):
        present = _list_frequencies(bits)
        if len(present) != len(given):
            raise ValueError(
                f"parameter {number} needs a shift for each of its frequencies, {len(present)}, "
                f"and has {len(given)}"
            )
        terms.append(np.asarray(qml.gradients.generate_shift_rule(present, tuple(given))))
    return ShiftRules(np.arange(len(terms), dtype=np.int32), (*terms, _NO_TERMS))


def make_difference_rules(parameters: bytes, dynamic_bits: int, terms: np.ndarray) -> ShiftRules:
    """Return rules of finite differences, for all parameters that change the results."""
    return _make_rules(
        parameters, dynamic_bits, lambda bits: _NO_TERMS if bits == NO_FREQUENCIES else terms
    )


def compute_difference_terms(h: float, approx_order: int, strategy: str) -> np.ndarray:
    """Return coefficient and shift of each term of a finite difference with step ``h``."""
    coefficients, shifts = finite_diff_coeffs(1, approx_order, strategy)
    return np.stack([coefficients / h, shifts * h], axis=1)


@functools.cache
def _compute_exact_terms(bits: int) -> np.ndarray:
    if bits == NO_FREQUENCIES:
        return _NO_TERMS
    if bits == AMPLITUDE:
        return _AMPLITUDE_TERMS
    return np.asarray(qml.gradients.generate_shift_rule(_list_frequencies(bits)))


def _list_frequencies(bits: int) -> tuple[float, ...]:
    return tuple((k + 1) / 2 for k in range(7) if bits >> k & 1)


def _make_rules(
    parameters: bytes, dynamic_bits: int, find_rule_terms: Callable[[int], np.ndarray]
) -> ShiftRules:
    known, of_parameters = np.unique(np.frombuffer(parameters, np.uint8), return_inverse=True)
    terms = (*map(find_rule_terms, map(int, known)), find_rule_terms(dynamic_bits))
    return ShiftRules(of_parameters.astype(np.int32), terms)


def draw_directions(n_params: int, num_directions: int, sampler_rng: int | None) -> Any:
    """Return rows of ones and minus ones, ``[num_directions, n_params]``.

    Args:
        n_params: how many parameters there are.
        num_directions: how many directions there are.
        sampler_rng: a seed, of which they are those of PennyLane's.
    """
    if sampler_rng is None:
        return jax.random.rademacher(make_random_key(), (num_directions, n_params), real_type())
    generator = np.random.default_rng(sampler_rng)
    rows = [generator.choice([-1.0, 1.0], size=n_params) for _ in range(num_directions)]
    return jnp.asarray(np.stack(rows), real_type())
