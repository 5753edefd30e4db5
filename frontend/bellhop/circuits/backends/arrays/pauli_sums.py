"""Apply sums of Pauli words, in one pass for all words that flip the same qubits.

A word is ``i**y X^x Z^z``: ``x`` are the qubits with X or Y, ``z`` the qubits with Z or Y, and
``y`` is the number of Ys.  So the words with equal ``x`` are together one diagonal matrix, followed
by a flip of the qubits ``x``::

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

# More words, or more sets of flipped qubits, are processed in a loop.
_MAX_UNROLLED = 8


class PauliTerm(NamedTuple):
    """A Pauli word with its coefficient.

    Attributes:
        coefficient: real scalar.
        letters: pairs of a qubit and ``"X"``, ``"Y"`` or ``"Z"``.
    """

    coefficient: Any
    letters: Sequence[tuple[int, str]]

    def find_mask(self, letters: str, n_qubits: int) -> int:
        """Return the bit mask of the qubits whose letter is in `letters`."""
        return sum(1 << (n_qubits - 1 - qubit) for qubit, is_ in self.letters if is_ in letters)

    @property
    def phase_power(self) -> int:
        """The power of the imaginary unit in ``i**y X^x Z^z``, modulo 4."""
        return sum(is_ == "Y" for _, is_ in self.letters) % 4


def stack_coefficients(words: Sequence[PauliTerm], dtype: DTypeLike) -> Any:
    """Return the real coefficients of words as an array ``[words]``."""
    coefficients = [word.coefficient for word in words]
    if any(isinstance(each, jax.core.Tracer) for each in coefficients):
        return jnp.stack([jnp.asarray(jnp.real(each), dtype) for each in coefficients])
    # One constant array instead of up to thousands of scalar constants.
    return jnp.asarray(np.real(np.array(coefficients)), dtype)


def apply_pauli_sum(words: Sequence[PauliTerm], state: Operand, coefficients: Operand) -> Any:
    """Apply a sum of Pauli words to a state.

    Args:
        words: at least one word; their own coefficients are not used.
        state: real array ``[2, 2**n]``, real and imaginary parts.
        coefficients: real array ``[words]``.

    Returns:
        real array ``[2, 2**n]``.
    """
    # Coefficients with the sign of i**y; its remaining factor is 1 or i.
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
    """Flip the qubits of a bit mask, reversing one axis per group of neighbours."""
    bits = [bool(mask >> place & 1) for place in reversed(range(n_qubits))]
    starts = [n for n, bit in enumerate(bits) if not n or bit != bits[n - 1]]
    ends = [*starts[1:], n_qubits]
    axes = [1 + axis for axis, start in enumerate(starts) if bits[start]]
    sizes = [2 ** (b - a) for a, b in zip(starts, ends, strict=True)]
    return jnp.flip(state.reshape(len(state), *sizes), axes).reshape(state.shape)


def _apply_diagonal(words: Sequence[PauliTerm], shares: Operand, state: Operand) -> Any:
    """Apply the sum of the diagonal parts of Pauli words to a state.

    Args:
        words: Pauli words with equal sets of flipped qubits.
        shares: their coefficients.
        state: array of the state.
    """
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
    """Return the diagonal of a sum of products of Z.

    Args:
        masks: bit mask of the qubits with Z, for each product.
        shares: coefficients of the products.
        n_qubits: number of qubits.
    """
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
    """Apply a sum of Pauli words to a state, in a ``lax.scan`` over the words.

    Args:
        words: the Pauli words.
        shares: their coefficients.
        state: array of the state.
        n_qubits: number of qubits.
    """
    flips = np.array([word.find_mask("XY", n_qubits) for word in words], np.uint32)
    masks = np.array([word.find_mask("YZ", n_qubits) for word in words], np.uint32)
    is_imaginary = np.array([word.phase_power % 2 == 1 for word in words])

    # Recompute for derivatives: otherwise JAX saves a state for each word.
    @jax.checkpoint
    def add(total: Operand, word: Any) -> tuple[Any, None]:
        """Add the state after one word to the total."""
        flip, mask, share, is_imaginary = word
        source = _make_basis_indices(n_qubits) ^ flip
        permuted = _apply_signs(share, source, mask) * state[:, source]
        turned = jnp.stack([-permuted[1], permuted[0]])
        return total + jnp.where(is_imaginary, turned, permuted), None

    xs = flips, masks, shares, is_imaginary
    return jax.lax.scan(add, jnp.zeros_like(state), xs)[0]


def _make_basis_indices(n_qubits: int) -> Any:
    return jax.lax.iota(jnp.uint32, 2**n_qubits)


def _apply_signs(share: Operand, numbers: Any, mask: Any) -> Any:
    """Return `share` for each index, negated if it has an odd number of a mask's bits."""
    parity = jax.lax.population_count(numbers & mask) & 1
    return jnp.where(parity == 1, -share, share)
