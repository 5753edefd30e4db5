"""Observables as sums of products, the form that devices measure.

Every observable becomes ``sum_k c_k prod_j F_kj``: the coefficients may be computed in the
program, and the factors of one product stand on wires of their own.
"""

import functools
import itertools
from dataclasses import dataclass
from typing import Any, TypeGuard

import jax
import numpy as np
import pennylane as qml

from bellhop.circuits.measure.statistics import unsupported

_PAULIS = ("PauliX", "PauliY", "PauliZ")


@dataclass(frozen=True, eq=False)
class Matrix:
    """A factor that is known by its matrix, of numbers or tracers.

    Attributes:
        wires: labels, the first for the most significant bit.
        matrix: of ``2**len(wires)`` rows.
    """

    wires: tuple[Any, ...]
    matrix: Any


@dataclass(frozen=True)
class Named:
    """A factor that devices know by name: a Pauli matrix or Hadamard."""

    name: str
    wire: Any

    @property
    def wires(self) -> tuple[Any, ...]:
        """The one wire, as a tuple."""
        return (self.wire,)


Factor = Named | Matrix
Term = tuple[Any, tuple[Factor, ...]]


class _NoObservableError(Exception):
    """An operator cannot be measured; the text is what it is, and why not."""


def terms_of(observable: Any, where: str) -> list[Term]:
    """Return pairs of coefficient and factors, at least one; no factors mean the identity.

    Raises:
        CompileError: for what cannot be written so, and where imaginary coefficients of Paulis
            remain.
    """
    try:
        with qml.QueuingManager.stop_recording():
            return _as_sum_of_products(observable)
    except _NoObservableError as error:
        raise unsupported(
            where, f"the observable {error}", "Write it as a sum of Paulis."
        ) from None


def _as_sum_of_products(observable: Any) -> list[Term]:
    terms = [_disjoint(coefficient, factors) for coefficient, factors in _expand(observable)]
    # A sum of nothing is 0, which is no observable to devices.
    terms = terms or [(0.0, ())]
    if not any(_is_imaginary(coefficient) for coefficient, _ in terms):
        return terms
    terms = [_with_real_coefficient(term) for term in terms]
    totals: dict[Any, Any] = {}
    for coefficient, factors in terms:
        if _is_imaginary(coefficient):
            # Those of one product may cancel, as in X @ Z + Z @ X.
            key = frozenset(factors)
            totals[key] = totals.get(key, 0.0) + coefficient
    if any(map(_is_imaginary, totals.values())):
        raise _NoObservableError(f"{observable}, which is not Hermitian")
    return terms


def _is_imaginary(coefficient: Any) -> bool:
    """Tell whether a coefficient is known to have an imaginary part."""
    if isinstance(coefficient, jax.core.Tracer):
        return False
    return bool(abs(np.imag(coefficient)) > 1e-10 * max(1.0, abs(coefficient)))


def _with_real_coefficient(term: Term) -> Term:
    """Multiply an imaginary coefficient into a matrix, where there is one."""
    coefficient, factors = term
    position = next((i for i, f in enumerate(factors) if isinstance(f, Matrix)), None)
    if position is None or not _is_imaginary(coefficient):
        return term
    old = factors[position]
    new = Matrix(old.wires, coefficient * _matrix(old))
    return 1.0, (*factors[:position], new, *factors[position + 1 :])


def _expand(observable: Any) -> list[tuple[Any, tuple[Any, ...]]]:
    ops = qml.ops
    if isinstance(observable, ops.LinearCombination):
        return [
            (coefficient * inner, factors)
            for coefficient, term in zip(*observable.terms(), strict=True)
            for inner, factors in _expand(term)
        ]
    if isinstance(observable, ops.Sum):
        return [term for operand in observable.operands for term in _expand(operand)]
    if isinstance(observable, ops.SProd):
        return [(observable.scalar * inner, rest) for inner, rest in _expand(observable.base)]
    if isinstance(observable, ops.Prod):
        products = itertools.product(*map(_expand, observable.operands))
        return [functools.reduce(_multiply, product, (1.0, ())) for product in products]
    if observable.name == "Identity":
        return [(1.0, ())]
    return [(1.0, (_factor(observable),))]


def _multiply(one: tuple[Any, Any], other: tuple[Any, Any]) -> tuple[Any, Any]:
    return one[0] * other[0], one[1] + other[1]


def _factor(observable: Any) -> Factor:
    if observable.name in _PAULIS or observable.name == "Hadamard":
        return Named(observable.name, observable.wires[0])
    if not observable.has_matrix:
        raise _NoObservableError(f"{observable.name}, which has no matrix")
    return Matrix(tuple(observable.wires), observable.matrix())


def _disjoint(coefficient: Any, factors: tuple[Factor, ...]) -> Term:
    """Multiply the factors that share wires, so that none does any more."""
    result: list[Factor] = []
    for factor in factors:
        shared = [other for other in result if set(other.wires) & set(factor.wires)]
        result = [other for other in result if other not in shared]
        phase, product = _product([*shared, factor])
        coefficient = coefficient * phase
        result += product
    return coefficient, tuple(result)


def _product(factors: list[Factor]) -> tuple[complex, list[Factor]]:
    if len(factors) == 1:
        return 1.0, factors
    if len(factors) == 2:
        one, other = factors
        if _is_pauli(one) and _is_pauli(other):
            return _pauli_product(one, other)
    wires = list(dict.fromkeys(wire for factor in factors for wire in factor.wires))
    matrices = [qml.math.expand_matrix(_matrix(f), f.wires, wire_order=wires) for f in factors]
    return 1.0, [Matrix(tuple(wires), functools.reduce(lambda a, b: a @ b, matrices))]


def _is_pauli(factor: Factor) -> TypeGuard[Named]:
    return isinstance(factor, Named) and factor.name in _PAULIS


# Products of two different Pauli matrices are i times the third in this order, else -i.
_CYCLE = ("PauliX", "PauliY", "PauliZ", "PauliX")


def _pauli_product(one: Named, other: Named) -> tuple[complex, list[Factor]]:
    if one.name == other.name:
        return 1.0, []
    (third,) = set(_PAULIS) - {one.name, other.name}
    phase = 1j if (one.name, other.name) in itertools.pairwise(_CYCLE) else -1j
    return phase, [Named(third, one.wire)]


def _matrix(factor: Factor) -> Any:
    if isinstance(factor, Matrix):
        return factor.matrix
    return np.asarray(getattr(qml, factor.name).compute_matrix())
