"""Shift rules: derivatives of circuits as sums of their values at other parameters.

A gate ``exp(i x G)`` makes every expectation value a sum of sines of ``f x``, where the
frequencies ``f`` are the differences of the eigenvalues of ``G``.  From them follows a rule
that is exact (Wierichs, Izaac, Wang and Lin, Quantum 6, 677, 2022).

The frequencies of a parameter are kept as bits: bit ``k`` stands for ``(k + 1) / 2``.  So the
rule for a parameter that belongs to one gate or another is that of the bits of both.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import pennylane as qml
from pennylane.gradients.finite_difference import finite_diff_coeffs
from pennylane.operation import GeneratorUndefinedError

# No shift changes the results.
NO_FREQUENCIES = 0
# There is no rule.
UNKNOWN_FREQUENCIES = 255

# Up to here, the eigenvalues of a generator are computed.
_GENERATOR_WIRES = 6


@functools.cache
def frequencies(gate: Any, n_wires: int, is_controlled: bool) -> int:
    """Return the bits of the frequencies of a gate's parameter.

    Args:
        gate: its class.
        n_wires: how many wires it has, without those of controls that were taken off it.
        is_controlled: whether any were.
    """
    eigenvalues = _eigenvalues(gate, n_wires)
    if eigenvalues is None:
        return UNKNOWN_FREQUENCIES
    if is_controlled:
        eigenvalues = np.append(eigenvalues, 0.0)
    differences = np.abs(eigenvalues[:, None] - eigenvalues)
    halves = np.unique(np.round(2 * differences, 9))
    if np.any(halves != np.round(halves)) or np.max(halves) > 7:
        return UNKNOWN_FREQUENCIES
    return sum(1 << (int(half) - 1) for half in halves if half > 0)


def _eigenvalues(gate: Any, n_wires: int) -> Any:
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
class ShiftRule:
    """A derivative by each of a circuit's parameters, as a sum of terms.

    Attributes:
        parameters: how many parameters there are.
        terms: for each coefficient and shift, the parameters that it is for; None is all.
        unshifted: for each parameter, the coefficient of the value without a shift.
    """

    parameters: int
    terms: tuple[tuple[float, float, Any], ...]
    unshifted: np.ndarray

    def indices(self) -> Any:
        """Return the parameter that each term shifts."""
        every = jnp.arange(self.parameters, dtype=jnp.int32)
        members = [every if given is None else jnp.asarray(given) for _, _, given in self.terms]
        return jnp.concatenate([jnp.zeros(0, jnp.int32), *members])

    def amounts(self) -> Any:
        """Return by how much each term shifts its parameter."""
        return self._repeated([shift for _, shift, _ in self.terms])

    def coefficients(self) -> Any:
        """Return what the value at each shift is multiplied with."""
        return self._repeated([coefficient for coefficient, _, _ in self.terms])

    def points(self) -> tuple[Any, Any]:
        """Return for each term which parameters it shifts, and by how much."""
        return self.indices()[:, None], self.amounts()[:, None]

    def weights(self, params_dot: Any) -> tuple[Any, Any]:
        """Return what the value at each point, and the one without a shift, is multiplied with."""
        return self.coefficients() * params_dot[self.indices()], self.unshifted @ params_dot

    def _repeated(self, numbers: list[float]) -> Any:
        pieces = [
            jnp.full(self.parameters if given is None else len(given), number)
            for number, (_, _, given) in zip(numbers, self.terms, strict=True)
        ]
        return jnp.concatenate([jnp.zeros(0), *pieces])


def parameter_shift(parameters: bytes) -> ShiftRule:
    """Return the exact rule for parameters, given the bits of each one's frequencies."""
    return _rule(np.frombuffer(parameters, np.uint8), _exact_terms)


def shifted_as_given(parameters: bytes, shifts: Sequence[Sequence[float]]) -> ShiftRule:
    """Return the exact rule for parameters at shifts that are given for each.

    Raises:
        ValueError: says which shifts are not as many as the frequencies.
    """
    if len(shifts) != len(parameters):
        raise ValueError(f"there are {len(parameters)} parameters, and shifts of {len(shifts)}")
    terms: list[tuple[float, float, Any]] = []
    unshifted = np.zeros(len(parameters))
    for number, (bits, given) in enumerate(zip(parameters, shifts, strict=True)):
        present = _present(bits)
        if len(present) != len(given):
            raise ValueError(
                f"parameter {number} needs a shift for each of its frequencies, {len(present)}, "
                f"and has {len(given)}"
            )
        for coefficient, shift in qml.gradients.generate_shift_rule(present, tuple(given)):
            terms.append((float(coefficient), float(shift), np.array([number], np.int32)))
    return ShiftRule(len(parameters), tuple(terms), unshifted)


def finite_differences(
    parameters: bytes, *, h: float, approx_order: int, strategy: str
) -> ShiftRule:
    """Return a rule of finite differences, for all parameters that change the results."""
    coefficients, shifts = finite_diff_coeffs(1, approx_order, strategy)
    terms = np.stack([coefficients / h, shifts * h], axis=1)
    return _rule(
        np.frombuffer(parameters, np.uint8),
        lambda bits: terms[:0] if bits == NO_FREQUENCIES else terms,
    )


@functools.cache
def _exact_terms(bits: int) -> np.ndarray:
    if bits == NO_FREQUENCIES:
        return np.zeros((0, 2))
    return np.asarray(qml.gradients.generate_shift_rule(_present(bits)))


def _present(bits: int) -> tuple[float, ...]:
    return tuple((k + 1) / 2 for k in range(7) if bits >> k & 1)


def _rule(bits: np.ndarray, terms_of: Callable[[int], np.ndarray]) -> ShiftRule:
    unshifted = np.zeros(len(bits))
    terms: list[tuple[float, float, Any]] = []
    for value in np.unique(bits):
        members = np.flatnonzero(bits == value).astype(np.int32)
        for coefficient, shift in terms_of(int(value)):
            if shift == 0:
                unshifted[members] += coefficient
            else:
                given = None if len(members) == len(bits) else members
                terms.append((float(coefficient), float(shift), given))
    return ShiftRule(len(bits), tuple(terms), unshifted)
