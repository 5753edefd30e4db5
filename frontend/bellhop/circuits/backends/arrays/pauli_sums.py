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
    """A Pauli word with a coefficient: one term of an observable.

    For instance ``0.5 X(0) @ Z(2)`` is ``PauliTerm(0.5, [(0, "X"), (2, "Z")])``.

    Attributes:
        coefficient: real scalar, static or traced.
        letters: pairs of a qubit index and ``"X"``, ``"Y"`` or ``"Z"``; identities are left out.
    """

    coefficient: Any
    letters: Sequence[tuple[int, str]]

    def find_mask(self, letters: str, n_qubits: int) -> int:
        """Return the bit mask of the qubits with a letter in `letters`, such as "XY".

        Qubit 0 is the most significant of `n_qubits` bits.
        """
        return sum(1 << (n_qubits - 1 - qubit) for qubit, is_ in self.letters if is_ in letters)

    @property
    def phase_power(self) -> int:
        """The power y of the imaginary unit in ``i**y X^x Z^z``: the number of Ys mod 4."""
        return sum(is_ == "Y" for _, is_ in self.letters) % 4


def stack_coefficients(words: Sequence[PauliTerm], dtype: DTypeLike) -> Any:
    """Return the real parts of the terms' coefficients, as an array ``[words]``."""
    coefficients = [word.coefficient for word in words]
    if any(isinstance(each, jax.core.Tracer) for each in coefficients):
        return jnp.stack([jnp.asarray(jnp.real(each), dtype) for each in coefficients])
    # One constant array instead of up to thousands of scalar constants.
    return jnp.asarray(np.real(np.array(coefficients)), dtype)


def apply_pauli_sum(words: Sequence[PauliTerm], state: Operand, coefficients: Operand) -> Any:
    """Apply a sum of Pauli words, ``sum(coefficient * word)``, to a state.

    Args:
        words: at least one word. Their own `coefficient` attributes are ignored.
        state: real array ``[2, 2**n]``, real and imaginary parts of the amplitudes.
        coefficients: real array ``[words]``, the coefficients to use instead.

    Returns:
        real array ``[2, 2**n]``, not normalized.
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
    """Apply X to some qubits: reverse the state's axes of these qubits.

    Args:
        state: array ``[components, 2**n_qubits]``.
        mask: the qubits as bits; qubit 0 is the most significant of `n_qubits` bits.
    """
    bits = [bool(mask >> place & 1) for place in reversed(range(n_qubits))]
    starts = [n for n, bit in enumerate(bits) if not n or bit != bits[n - 1]]
    ends = [*starts[1:], n_qubits]
    axes = [1 + axis for axis, start in enumerate(starts) if bits[start]]
    sizes = [2 ** (b - a) for a, b in zip(starts, ends, strict=True)]
    return jnp.flip(state.reshape(len(state), *sizes), axes).reshape(state.shape)


def _apply_diagonal(words: Sequence[PauliTerm], shares: Operand, state: Operand) -> Any:
    """Apply the factors ``i**y Z^z`` of a sum of Pauli words to a state.

    The factor ``X^x`` is the same for all words, and is left to the caller (`flip_qubits`).

    Args:
        words: words with X or Y on the same qubits.
        shares: real array ``[words]``, coefficients, including the sign of ``i**y``.
        state: array ``[2, 2**n]``, real and imaginary parts.
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
    """Return the diagonal of a sum of products of Z, as an array ``[2**n_qubits]``.

    Args:
        masks: ``u32[products]``, for each product the bit mask of the qubits with Z.
        shares: real array ``[products]``, the coefficients.
    """
    numbers = _make_basis_indices(n_qubits)
    if len(masks) <= _MAX_UNROLLED:
        each = zip(masks, shares, strict=True)
        return functools.reduce(
            operator.add, (_apply_signs(share, numbers, mask) for mask, share in each)
        )

    def add(total: Operand, word: tuple[Any, Any]) -> tuple[Any, None]:
        """Add the diagonal of one product, given by its mask and its coefficient."""
        mask, share = word
        return total + _apply_signs(share, numbers, mask), None

    total = jnp.zeros(2**n_qubits, shares.dtype)
    return jax.lax.scan(jax.checkpoint(add), total, (masks, shares))[0]


def _apply_in_scan(
    words: Sequence[PauliTerm], shares: Operand, state: Operand, n_qubits: int
) -> Any:
    """Apply a sum of Pauli words to a state, in a ``lax.scan`` over the words.

    Used for sums with many sets of flipped qubits, so that the program has one step for all words.

    Args:
        words: the Pauli words, whose own coefficients are ignored.
        shares: real array ``[words]``, coefficients, including the sign of ``i**y``.
        state: array ``[2, 2**n_qubits]``, real and imaginary parts.
    """
    flips = np.array([word.find_mask("XY", n_qubits) for word in words], np.uint32)
    masks = np.array([word.find_mask("YZ", n_qubits) for word in words], np.uint32)
    is_imaginary = np.array([word.phase_power % 2 == 1 for word in words])

    # Recompute for derivatives: otherwise JAX saves a state for each word.
    @jax.checkpoint
    def add(total: Operand, word: Any) -> tuple[Any, None]:
        """Add one word, applied to the state; the body of the scan in `_apply_in_scan`.

        Args:
            total: array ``[2, 2**n]``, the sum over the preceding words.
            word: four scalars: the bit mask of the qubits with X or Y; the bit mask of the qubits
                with Z or Y; the coefficient, including the sign of ``i**y`` for a word with y
                letters Y; and whether y is odd, which leaves a factor ``i``.
        """
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
    """Return `share`, negated where an index has an odd number of the bits of `mask`.

    `numbers` are indices of basis states, and `mask` has the qubits with Z. So this multiplies
    `share` by the diagonal of a product of Z.
    """
    parity = jax.lax.population_count(numbers & mask) & 1
    return jnp.where(parity == 1, -share, share)
