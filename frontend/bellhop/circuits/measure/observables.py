"""Expand observables into sums of products, the form that devices measure.

Every observable becomes ``sum_k c_k prod_j F_kj``.  The coefficients ``c_k`` may be traced, and the
factors ``F_kj`` of one product act on disjoint wires.
"""

import functools
import itertools
import warnings
from dataclasses import dataclass
from typing import Any, TypeGuard

import jax
import numpy as np
import pennylane as qml

from bellhop.circuits.gates.real_imag_inference import is_hermitian
from bellhop.circuits.ir.statistics import unsupported_error
from bellhop.circuits.ir.wires import is_dynamic

_PAULIS = ("PauliX", "PauliY", "PauliZ")


@dataclass(frozen=True, eq=False)
class MatrixFactor:
    """A factor of a product of observables that is defined by its matrix.

    Attributes:
        wires: wire labels, the first one for the most significant bit.
        matrix: array ``[2**len(wires), 2**len(wires)]``, static or traced.
    """

    wires: tuple[Any, ...]
    matrix: Any


@dataclass(frozen=True)
class NamedFactor:
    """A factor that devices know by its name: a Pauli matrix or Hadamard, on one wire.

    Attributes:
        name: name of the PennyLane class, such as ``"PauliX"``.
        wire: wire label.
    """

    name: str
    wire: Any

    @property
    def wires(self) -> tuple[Any, ...]:
        """The factor's only wire, as a tuple."""
        return (self.wire,)


Factor = NamedFactor | MatrixFactor
Term = tuple[Any, tuple[Factor, ...]]

# Terms that are Hermitian only as a sum are merged into a matrix on at most this number of wires.
_MAX_WIRES = 8


class _InvalidObservableError(Exception):
    """Raised while an observable is expanded, if the operator is not supported.

    The message describes the operator, as the end of "bellhop does not support the observable ...".
    `find_terms` converts the exception to a ``CompileError``.

    Attributes:
        instead: a sentence with the remedy, which `find_terms` appends to the message.
    """

    instead = "Write the observable as a sum of Pauli words."


class _ShapeError(_InvalidObservableError):
    """Raised for an operator whose matrix has a wrong shape for its wires."""

    instead = "Pass a matrix of 2**n rows and columns for n wires."


class _UnknownHermitianError(_InvalidObservableError):
    """Raised for an observable that is not known to be Hermitian, such as a traced matrix."""

    instead = (
        "Write the observable as a sum of Pauli words with real coefficients, or as "
        "qml.Hermitian(matrix, wires)."
    )

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}, which is not known to be Hermitian")


class _NotHermitianError(_InvalidObservableError):
    """Raised for an observable that is not Hermitian."""

    instead = (
        "Measure (A + qml.adjoint(A)) / 2 for the real part of its mean, and "
        "(A - qml.adjoint(A)) / 2j for the imaginary part."
    )

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}, which is not Hermitian")


class _BatchError(_InvalidObservableError):
    """Raised for an observable with a coefficient that is not a scalar."""

    instead = "Pass numbers, and use jax.vmap or bellhop.vmap over the batch."


def find_terms(observable: Any, where: str) -> list[Term]:
    """Expand an observable into a sum of products of factors on disjoint wires.

    ``2 * qml.X(0) @ qml.Z(1)`` has one term: the coefficient 2, and a `NamedFactor` for each Pauli
    matrix. A traced complex coefficient causes a ``ComplexWarning``.

    Args:
        observable: PennyLane operator on static wires.
        where: the QNode's name and line, for error messages.

    Returns:
        pairs of a coefficient and a tuple of factors, at least one. An empty tuple of factors is
        the identity.

    Raises:
        CompileError: if the observable is not Hermitian, has a batch of coefficients, or has a
            factor without a matrix or with a matrix of a wrong shape.
    """
    try:
        with qml.QueuingManager.stop_recording():
            terms = _as_sum_of_products(observable)
    except _InvalidObservableError as error:
        raise unsupported_error(where, f"the observable {error}", error.instead) from None
    if any(is_dynamic(c) and jax.numpy.iscomplexobj(c) for c, _ in terms):
        # NumPy and PennyLane also warn when they discard an imaginary part.
        warnings.warn(
            f"{where}: a coefficient of {observable.name} is complex and traced. Observables are "
            "Hermitian, so the imaginary part of the coefficient is discarded. Pass "
            "jnp.real(coefficient).",
            np.exceptions.ComplexWarning,
            stacklevel=2,
        )
    return terms


def _as_sum_of_products(observable: Any) -> list[Term]:
    """Expand an observable on static wires into terms of Hermitian factors.

    Returns:
        at least one pair of a coefficient and a tuple of factors on disjoint wires. A static
        coefficient may be complex if the imaginary parts of terms with equal factors add up to
        zero.

    Raises:
        _InvalidObservableError: if the observable is not supported.
    """
    terms = [
        merge_shared_wires(coefficient, factors) for coefficient, factors in _expand(observable)
    ]
    # Devices need at least one term, so an empty sum becomes 0 times the identity.
    terms = terms or [(0.0, ())]
    if not any(_is_imaginary(coefficient) for coefficient, _ in terms):
        return _merge_nonhermitian(terms, observable)
    terms = _merge_nonhermitian([_absorb_imaginary(term) for term in terms], observable)
    totals: dict[Any, Any] = {}
    for coefficient, factors in terms:
        if _is_imaginary(coefficient):
            # Imaginary coefficients of equal products may cancel, as in X @ Z + Z @ X.
            key = frozenset(factors)
            totals[key] = totals.get(key, 0.0) + coefficient
    if any(map(_is_imaginary, totals.values())):
        raise _NotHermitianError(str(observable))
    return terms


def _merge_nonhermitian(terms: list[Term], observable: Any) -> list[Term]:
    """Merge all terms that have a non-Hermitian factor into one Hermitian matrix.

    The sum of such terms may be Hermitian, as in S + S^dagger.

    Args:
        terms: pairs of a coefficient and a tuple of factors on disjoint wires.
        observable: the observable of which these are the terms, for errors.

    Returns:
        the terms whose factors are all Hermitian, and a last term for the sum of the remaining
        terms, if any: the coefficient 1 and one `MatrixFactor`.

    Raises:
        _NotHermitianError: if the sum is not Hermitian.
        _UnknownHermitianError: if the sum is traced, or has more than `_MAX_WIRES` wires.
    """
    rest: list[Term] = []
    others: list[Term] = []
    for term in terms:
        (rest if all(map(_is_hermitian, term[1])) else others).append(term)
    if not others:
        return terms
    wires = list(dict.fromkeys(wire for _, factors in others for f in factors for wire in f.wires))
    known = not any(
        is_dynamic(number)
        for coefficient, factors in others
        for number in (coefficient, *map(get_factor_matrix, factors))
    )
    if not known or len(wires) > _MAX_WIRES:
        raise _UnknownHermitianError(str(observable))
    matrices = [
        functools.reduce(
            np.matmul,
            (
                qml.math.expand_matrix(get_factor_matrix(f), f.wires, wire_order=wires)
                for f in factors
            ),
            coefficient * np.eye(2 ** len(wires)),
        )
        for coefficient, factors in others
    ]
    together = MatrixFactor(tuple(wires), np.sum(matrices, axis=0))
    if not _is_hermitian(together):
        raise _NotHermitianError(str(observable))
    return [*rest, (1.0, (together,))]


def _is_hermitian(factor: Factor) -> bool:
    """Return whether a factor is Hermitian, assuming that a traced matrix is.

    Traced matrices need no check here: `_to_factor` accepts only operators that are Hermitian.
    """
    if isinstance(factor, NamedFactor) or is_dynamic(factor.matrix):
        return True
    return np.allclose(factor.matrix, np.conj(np.swapaxes(factor.matrix, -1, -2)))


def _is_imaginary(coefficient: Any) -> bool:
    """Return whether a coefficient is static and has a nonzero imaginary part."""
    if is_dynamic(coefficient):
        return False
    return bool(abs(np.imag(coefficient)) > 1e-10 * max(1.0, abs(coefficient)))


def _absorb_imaginary(term: Term) -> Term:
    """Multiply a static complex coefficient into a matrix of its term.

    A term with an anti-Hermitian matrix ``A`` and the coefficient ``1j`` becomes the Hermitian
    matrix ``1j * A``.

    Returns:
        the term with coefficient 1 and the first matrix multiplied; ``term`` itself if it has no
        matrix, or if its coefficient is real or traced.
    """
    coefficient, factors = term
    position = next((i for i, f in enumerate(factors) if isinstance(f, MatrixFactor)), None)
    if position is None or not _is_imaginary(coefficient):
        return term
    old = factors[position]
    new = MatrixFactor(old.wires, coefficient * get_factor_matrix(old))
    return 1.0, (*factors[:position], new, *factors[position + 1 :])


def _expand(observable: Any) -> list[tuple[Any, tuple[Any, ...]]]:
    """Expand sums, scalar products and products recursively into terms.

    Returns:
        pairs of a coefficient and a tuple of factors, which may still share wires and be
        non-Hermitian; see `merge_shared_wires`.

    Raises:
        _InvalidObservableError: if a factor has no valid matrix, or a coefficient is an array.
    """
    ops = qml.ops
    if isinstance(observable, ops.LinearCombination):
        return [
            (_multiply_scalars(_check_scalar(coefficient), inner), factors)
            for coefficient, term in zip(*observable.terms(), strict=True)
            for inner, factors in _expand(term)
        ]
    if isinstance(observable, ops.Sum):
        return [term for operand in observable.operands for term in _expand(operand)]
    if isinstance(observable, ops.SProd):
        scalar = _check_scalar(observable.scalar)
        return [
            (_multiply_scalars(scalar, inner), rest) for inner, rest in _expand(observable.base)
        ]
    if isinstance(observable, ops.Prod):
        products = itertools.product(*map(_expand, observable.operands))
        return [functools.reduce(_multiply_terms, product, (1.0, ())) for product in products]
    if observable.name == "Identity":
        return [(1.0, ())]
    return [(1.0, (_to_factor(observable),))]


def _check_scalar(coefficient: Any) -> Any:
    """Return a coefficient unchanged; raise an error if it is an array with axes.

    Raises:
        _BatchError: if the coefficient has axes.
    """
    shape = np.shape(coefficient)
    if shape:
        raise _BatchError(f"with a coefficient of shape {shape}, expected a number")
    return coefficient


def _multiply_scalars(one: Any, other: Any) -> Any:
    """Multiply two scalars; if one of them is a static 1, return the other one."""
    if not is_dynamic(other) and other == 1:
        return one
    return other if not is_dynamic(one) and one == 1 else one * other


def _multiply_terms(one: tuple[Any, Any], other: tuple[Any, Any]) -> tuple[Any, Any]:
    """Multiply the coefficients of two terms, and concatenate their factors."""
    return _multiply_scalars(one[0], other[0]), one[1] + other[1]


def _to_factor(observable: Any) -> Factor:
    """Convert an operator that is neither a sum nor a product to a factor.

    Returns:
        a `NamedFactor` for a Pauli matrix or Hadamard, else a `MatrixFactor` on the operator's
        wires in their order.

    Raises:
        _InvalidObservableError: if the operator has no matrix, a matrix of wrong shape, or a traced
            matrix that is not known to be Hermitian.
    """
    if observable.name in _PAULIS or observable.name == "Hadamard":
        return NamedFactor(observable.name, observable.wires[0])
    if not observable.has_matrix:
        raise _InvalidObservableError(f"{observable.name}, which has no matrix")
    matrix = observable.matrix()
    shape = (2 ** len(observable.wires),) * 2
    if np.shape(matrix) != shape:
        raise _ShapeError(
            f"{observable.name} with a matrix of shape {np.shape(matrix)} on wires "
            f"{list(observable.wires)}"
        )
    if is_dynamic(matrix) and not is_hermitian(observable):
        raise _UnknownHermitianError(f"{observable.name} with traced parameters")
    return MatrixFactor(tuple(observable.wires), matrix)


def merge_shared_wires(coefficient: Any, factors: tuple[Factor, ...]) -> Term:
    """Multiply factors that share wires, so that all factors act on disjoint wires.

    ``X(0) @ Y(0)`` becomes the coefficient ``1j`` and the factor ``Z(0)``.

    Args:
        factors: factors in the order of the matrix product.

    Returns:
        the coefficient, times the phases of products of Paulis, and the disjoint factors.
    """
    wires = [wire for factor in factors for wire in factor.wires]
    if len(set(wires)) == len(wires):
        return coefficient, factors
    result: list[Factor] = []
    for factor in factors:
        shared = [other for other in result if set(other.wires) & set(factor.wires)]
        result = [other for other in result if other not in shared]
        phase, product = _multiply_factors([*shared, factor])
        coefficient = _multiply_scalars(coefficient, phase)
        result += product
    return coefficient, tuple(result)


def _multiply_factors(factors: list[Factor]) -> tuple[complex, list[Factor]]:
    """Multiply factors of an observable, which may share wires.

    Two Pauli matrices give a phase and a Pauli matrix, such as ``1j`` and ``Z``; other factors give
    a matrix.

    Args:
        factors: factors in the order of the matrix product. Two Paulis must act on the same wire;
            other factors may act on different wires.

    Returns:
        the phase, which is 1 except for two Paulis; and a list with the product, a Pauli or a
        matrix on the union of the wires. The list is empty if two equal Paulis give the identity.
        A single factor is returned as it is.
    """
    if len(factors) == 1:
        return 1.0, factors
    if len(factors) == 2:
        one, other = factors
        if _is_pauli(one) and _is_pauli(other):
            return _multiply_paulis(one, other)
    wires = list(dict.fromkeys(wire for factor in factors for wire in factor.wires))
    matrices = [
        qml.math.expand_matrix(get_factor_matrix(f), f.wires, wire_order=wires) for f in factors
    ]
    return 1.0, [MatrixFactor(tuple(wires), functools.reduce(lambda a, b: a @ b, matrices))]


def _is_pauli(factor: Factor) -> TypeGuard[NamedFactor]:
    """Return whether a factor is a Pauli matrix, not Hadamard or a matrix."""
    return isinstance(factor, NamedFactor) and factor.name in _PAULIS


# Products of two different Pauli matrices are i times the third in this order, else -i.
_CYCLE = ("PauliX", "PauliY", "PauliZ", "PauliX")


def _multiply_paulis(one: NamedFactor, other: NamedFactor) -> tuple[complex, list[Factor]]:
    """Multiply two Pauli matrices on the same wire, in the order of the arguments.

    Returns:
        the phase (1, 1j or -1j), and a list with the third Pauli matrix; an empty list if the
        product is the identity.
    """
    if one.name == other.name:
        return 1.0, []
    (third,) = set(_PAULIS) - {one.name, other.name}
    phase = 1j if (one.name, other.name) in itertools.pairwise(_CYCLE) else -1j
    return phase, [NamedFactor(third, one.wire)]


def make_factor_operation(factor: Factor) -> Any:
    """Convert a factor of an observable to a PennyLane operator."""
    if isinstance(factor, NamedFactor):
        return getattr(qml, factor.name)(factor.wire)
    return qml.Hermitian(factor.matrix, wires=factor.wires)


def list_observables(given: Any) -> list[Any]:
    """Wrap a single observable in a list; convert a sequence of observables to a list."""
    # Sums and products are iterable too.
    return [given] if isinstance(given, qml.operation.Operator) else list(given)


def get_factor_matrix(factor: Factor) -> Any:
    """Return the matrix of a factor, as an array ``[2**wires, 2**wires]``."""
    if isinstance(factor, MatrixFactor):
        return factor.matrix
    return np.asarray(getattr(qml, factor.name).compute_matrix())
