"""Sums of Pauli words, as one pass over a state for all words that flip the same qubits.

A word is ``i**y X^x Z^z``, where ``x`` are the qubits of its X and Y, ``z`` those of its Z and Y,
and ``y`` is how many Y it has.  So words of the same ``x`` are one diagonal matrix together, before
the qubits of ``x`` are flipped::

    0.5 Z0 + 0.2 Z1 + 0.3 X0 Z1 + 0.1 Y0  =  (0.5 Z0 + 0.2 Z1) + X0 (0.3 Z1 + 0.1 i Z0)
"""

import functools
import operator
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from bellhop.base.types import Operand

# More words, and more sets of flipped qubits, are gone through in a loop.
_MAX_UNROLLED = 8


class PauliTerm(NamedTuple):
    """A Pauli word with its coefficient.

    Attributes:
        coefficient: a real number.
        letters: pairs of a qubit and one of X, Y and Z.
    """

    coefficient: Any
    letters: Sequence[tuple[int, str]]

    def find_mask(self, letters: str, n_qubits: int) -> int:
        """Return the bits of the qubits that have some letters."""
        return sum(1 << (n_qubits - 1 - qubit) for qubit, is_ in self.letters if is_ in letters)

    @property
    def phase_power(self) -> int:
        """That of the imaginary unit."""
        return sum(is_ == "Y" for _, is_ in self.letters) % 4


def stack_coefficients(words: Sequence[PauliTerm], dtype: DTypeLike) -> Any:
    """Return the coefficients of words as an array."""
    coefficients = [word.coefficient for word in words]
    if any(isinstance(each, jax.core.Tracer) for each in coefficients):
        return jnp.stack([jnp.asarray(jnp.real(each), dtype) for each in coefficients])
    # One constant, where there may be thousands.
    return jnp.asarray(np.real(np.array(coefficients)), dtype)


def apply_pauli_sum(words: Sequence[PauliTerm], state: Operand, coefficients: Operand) -> Any:
    """Return a state after a sum of words, the real and imaginary part of whose amplitudes it has.

    Args:
        words: at least one; their coefficients are not used.
        state: of shape ``(2, 2**n)``.
        coefficients: real numbers, one for each.
    """
    # With the sign of the imaginary unit's power.
    shares = coefficients * np.array(
        [1 if word.phase_power < 2 else -1 for word in words], state.dtype
    )
    n_qubits = state.shape[1].bit_length() - 1
    by_flips: dict[int, list[int]] = defaultdict(list)
    for number, word in enumerate(words):
        by_flips[word.find_mask("XY", n_qubits)].append(number)
    if len(by_flips) > _MAX_UNROLLED:
        return _apply_in_scan(words, shares, state, n_qubits)
    return sum(
        flip_qubits(
            _apply_diagonal([words[n] for n in some], shares[np.array(some)], state), mask, n_qubits
        )
        for mask, some in by_flips.items()
    )


def flip_qubits(state: Operand, mask: int, n_qubits: int) -> Any:
    """Return a state some of whose qubits are flipped; neighbours are one axis, reversed."""
    bits = [bool(mask >> place & 1) for place in reversed(range(n_qubits))]
    starts = [n for n, bit in enumerate(bits) if not n or bit != bits[n - 1]]
    ends = [*starts[1:], n_qubits]
    axes = [1 + axis for axis, start in enumerate(starts) if bits[start]]
    sizes = [2 ** (b - a) for a, b in zip(starts, ends, strict=True)]
    return jnp.flip(state.reshape(len(state), *sizes), axes).reshape(state.shape)


def _apply_diagonal(words: Sequence[PauliTerm], shares: Operand, state: Operand) -> Any:
    """Return a state after a diagonal matrix, that of words without their flips."""
    n_qubits = state.shape[1].bit_length() - 1
    parts: list[Any] = []
    for is_imaginary in (False, True):
        some = [n for n, word in enumerate(words) if word.phase_power % 2 == is_imaginary]
        if some:
            turned = jnp.stack([-state[1], state[0]]) if is_imaginary else state
            masks = np.array([words[n].find_mask("YZ", n_qubits) for n in some], np.uint32)
            parts.append(_compute_diagonal(masks, shares[np.array(some)], n_qubits) * turned)
    return functools.reduce(operator.add, parts)


def _compute_diagonal(masks: np.ndarray, shares: Operand, n_qubits: int) -> Any:
    """Return the diagonal of words of Z, and of Y as the sign that it has beside them."""
    numbers = _make_basis_indices(n_qubits)
    if len(masks) <= _MAX_UNROLLED:
        each = zip(masks, shares, strict=True)
        return functools.reduce(
            operator.add, (_apply_signs(share, numbers, mask) for mask, share in each)
        )

    def add(total: Operand, word: tuple[Any, Any]) -> tuple[Any, None]:
        mask, share = word
        return total + _apply_signs(share, numbers, mask), None

    total = jnp.zeros(2**n_qubits, shares.dtype)
    return jax.lax.scan(jax.checkpoint(add), total, (masks, shares))[0]


def _apply_in_scan(
    words: Sequence[PauliTerm], shares: Operand, state: Operand, n_qubits: int
) -> Any:
    flips = np.array([word.find_mask("XY", n_qubits) for word in words], np.uint32)
    masks = np.array([word.find_mask("YZ", n_qubits) for word in words], np.uint32)
    is_imaginary = np.array([word.phase_power % 2 == 1 for word in words])

    # Its values are made again for derivatives: a state for each word would be kept.
    @jax.checkpoint
    def add(total: Operand, word: Any) -> tuple[Any, None]:
        flip, mask, share, is_imaginary = word
        source = _make_basis_indices(n_qubits) ^ flip
        there = _apply_signs(share, source, mask) * state[:, source]
        turned = jnp.stack([-there[1], there[0]])
        return total + jnp.where(is_imaginary, turned, there), None

    xs = flips, masks, shares, is_imaginary
    return jax.lax.scan(add, jnp.zeros_like(state), xs)[0]


def _make_basis_indices(n_qubits: int) -> Any:
    return jax.lax.iota(jnp.uint32, 2**n_qubits)


def _apply_signs(share: Operand, numbers: Any, mask: Any) -> Any:
    """Return a number for each of others, negated where an odd number of a mask's bits are set."""
    parity = jax.lax.population_count(numbers & mask) & 1
    return jnp.where(parity == 1, -share, share)
