"""Decompose observables into Pauli words, for devices that measure nothing else."""

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from bellhop.circuits.ir.wires import is_dynamic
from bellhop.circuits.measure.observables import (
    Factor,
    MatrixFactor,
    NamedFactor,
    Term,
    get_factor_matrix,
    merge_shared_wires,
)

_SUMS = ("Hamiltonian", "LinearCombination", "Sum")


def iterate_words(length: int) -> Iterator[tuple[str, ...]]:
    """Yield all ``4**length`` Pauli words as tuples, such as ``("PauliX", "Identity")``."""
    return itertools.product(("Identity", "PauliX", "PauliY", "PauliZ"), repeat=length)


def compute_word_matrix(names: Sequence[str]) -> np.ndarray:
    """Compute the matrix of a Pauli word, the Kronecker product of its Pauli matrices.

    Args:
        names: a name such as ``"PauliX"`` or ``"Identity"`` for each qubit, the first one for the
            most significant bit.
    """
    matrices = [get_factor_matrix(NamedFactor(name, 0)) for name in names]
    return functools.reduce(np.kron, matrices, np.eye(1))


def needs_pauli_words(terms: Sequence[Term], observables: frozenset[str]) -> bool:
    """Return whether an observable must be split into Pauli words for a device.

    Args:
        terms: terms of the observable, from ``find_terms``.
        observables: names of the observables that the device supports.

    Returns:
        True if the device supports no sums, and there are several terms or a coefficient other than
        a static 1; or if a factor is a matrix or Hadamard and the device does not support it.
    """
    names = {
        "Hermitian" if isinstance(factor, MatrixFactor) else factor.name
        for _, factors in terms
        for factor in factors
    }
    is_sum = len(terms) > 1 or not isinstance(terms[0][0], float | int) or terms[0][0] != 1
    lacks_sums = is_sum and observables.isdisjoint(_SUMS)
    return lacks_sums or bool(names & {"Hermitian", "Hadamard"} - observables)


def to_pauli_words(terms: Sequence[Term]) -> list[Term]:
    """Expand the terms of an observable into a sum of distinct Pauli words.

    Matrices and Hadamards are decomposed: the term ``(2, (H(0),))`` becomes ``sqrt(2) X(0) +
    sqrt(2) Z(0)``.

    Args:
        terms: terms from ``find_terms``, with factors on disjoint wires.

    Returns:
        pairs of a coefficient and a tuple of `NamedFactor` Paulis. The empty tuple is the identity.
    """
    words: list[Term] = []
    for coefficient, factors in terms:
        for parts in itertools.product(*map(_decompose_factor, factors)):
            total = coefficient
            for number, _ in parts:
                total = total * number
            words.append((total, tuple(pauli for _, paulis in parts for pauli in paulis)))
    return _merge_equal_words(words)


def square_words(words: Sequence[Term]) -> list[Term]:
    """Expand the square of a sum of Pauli words into a sum of distinct Pauli words.

    ``X(0) + Z(1)`` becomes ``2 I + 2 X(0) Z(1)``.

    Args:
        words: pairs of a coefficient and a tuple of `NamedFactor` Paulis on different wires.

    Returns:
        the words of the square, in the same form. Coefficients that cancel remain, as zeros.
    """
    pairs = itertools.product(words, repeat=2)
    return _merge_equal_words(
        [merge_shared_wires(a * b, (*one, *other)) for (a, one), (b, other) in pairs]
    )


def _decompose_factor(factor: Factor) -> list[tuple[Any, tuple[NamedFactor, ...]]]:
    """Write a factor of an observable as a sum of Pauli words.

    Args:
        factor: a Pauli matrix, Hadamard or a Hermitian matrix, static or traced.

    Returns:
        pairs of a real coefficient and a tuple of Paulis, without identities. Words with a static
        coefficient of zero are left out.
    """
    if isinstance(factor, NamedFactor) and factor.name != "Hadamard":
        return [(1.0, (factor,))]
    matrix = get_factor_matrix(factor)
    is_computed = is_dynamic(matrix)
    words = []
    for names in iterate_words(len(factor.wires)):
        word = compute_word_matrix(names)
        number = (jnp if is_computed else np).trace(word @ matrix).real / len(word)
        if is_computed or abs(number) > 1e-14:
            paulis = zip(names, factor.wires, strict=True)
            words.append((number, tuple(NamedFactor(n, w) for n, w in paulis if n != "Identity")))
    return words


def _merge_equal_words(words: Sequence[Term]) -> list[Term]:
    """Add up the coefficients of equal Pauli words.

    Words are equal if they have the same Paulis on the same wires, in any order. Each distinct word
    occurs once in the result.
    """
    totals: dict[Any, Term] = {}
    for coefficient, word in words:
        key = frozenset(word)
        before = totals[key][0] if key in totals else 0.0
        totals[key] = before + coefficient, word
    return list(totals.values())
