"""Differentiate expectation values and variances by the data of their observables.

Expectation values are linear in the coefficients and in the matrices.  So the derivative by a
coefficient is the value of its term, and the derivative by a matrix is a sum of the values of its
Pauli words.  Second moments are quadratic, so their derivative along a term ``W`` is exactly a
central difference with any step: ``(E[(A + W)**2] - E[(A - W)**2]) / 2``.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from bellhop.base.types import Operand
from bellhop.circuits.backends.compiled.differentiable.measurement_primitives import (
    MOST_MATRIX_WIRES,
)
from bellhop.circuits.ir.device_measurements import Expval, Measurement, Var
from bellhop.circuits.ir.observable_encoding import Product, QubitFactor
from bellhop.circuits.ir.precision import Precision
from bellhop.circuits.measure.pauli_words import compute_word_matrix, iterate_words
from bellhop.errors import DifferentiableCompileError


class ValueChange(NamedTuple):
    """The tangent of one measured value, as a weighted sum of other values.

    For instance, the tangent of ``<a X + b Z>`` by the coefficients is ``a_dot <X> + b_dot <Z>``.
    For a variance, it is the tangent of its second moment, as a weighted sum of second moments.

    Attributes:
        measurement_index: the index of the measurement whose value changes.
        measurements: the measurements of the other values.
        weights: the weights of these values, array ``[len(measurements)]``.
        coefficients: new coefficients of the measurements' observables, which are appended to the
            circuit's coefficients.
    """

    measurement_index: int
    measurements: tuple[Measurement, ...]
    weights: Any
    coefficients: Any = ()


def iterate_data_changes(
    measurements: Sequence[Measurement],
    coefficients: Operand,
    coefficients_tangent: Any | None,
    matrices_tangent: Any | None,
) -> Iterator[ValueChange]:
    """Yield how each value changes along the tangents of coefficients and matrices.

    A value that depends on both yields two changes.

    Args:
        measurements: the measurements.
        coefficients: array ``[c]``, the coefficients of observables.
        coefficients_tangent: array ``[c]``, the tangent of the coefficients; None if it is zero.
        matrices_tangent: array ``[m]``, the tangent of the data of matrices (real and imaginary
            part of each entry); None if it is zero.

    Raises:
        DifferentiableCompileError: if a matrix on more than ``MOST_MATRIX_WIRES`` wires is
            differentiated.
    """
    n = coefficients.shape[0]
    for number, measurement in enumerate(measurements):
        for terms, weights in _iterate_derivative_terms(
            measurement, coefficients, coefficients_tangent, matrices_tangent
        ):
            if isinstance(measurement, Var):
                change = _make_second_moment_change(
                    number, measurement, terms, weights, coefficients, n
                )
                n += change.coefficients.shape[0]
                yield change
            else:
                yield ValueChange(number, tuple(Expval(terms=(term,)) for term in terms), weights)


def _make_second_moment_change(
    index: int,
    variance: Var,
    terms: Sequence[Product],
    weights: Any,
    coefficients: Operand,
    first: int,
) -> ValueChange:
    """Return the change of a variance's second moment along terms of its observable.

    For an observable A, a term W and its rate w, it is ``w * (E[(A + W)**2] - E[(A - W)**2]) / 2``,
    summed over the terms: an exact central difference.

    Args:
        index: the index of the variance among the circuit's measurements.
        variance: the measurement, with the observable A.
        terms: the terms (Pauli or other products) along which the observable changes.
        weights: the rates of change along the terms, an array ``[len(terms)]``.
        coefficients: array ``[c]``, the coefficients of observables.
        first: the index that the first new coefficient gets when it is appended to `coefficients`.

    Returns:
        the change. Its measurements are `Var` objects, of which the caller uses the second moments
        and not the variances: of A + W for each term, then of A - W for each term. Its weights are
        half the rates, then minus half the rates. Its coefficients are to be appended to
        `coefficients`: A's own and 1 for all ``A + W``, then A's own and -1 for all ``A - W``.
    """
    observable = variance.list_terms()
    own = jnp.stack(
        [
            jnp.ones((), Precision.real_type()) if at is None else coefficients[at]
            for _, at in observable
        ]
    )
    ends = jnp.array([1.0, -1.0], Precision.real_type())
    coefficient_rows = jnp.concatenate([jnp.tile(own, (2, 1)), ends[:, None]], axis=1)
    products = [term for term, _ in observable]
    second_moments = tuple(
        Var(terms=(*products, term), first_coefficient=first + row * coefficient_rows.shape[1])
        for row in range(2)
        for term in terms
    )
    return ValueChange(
        index, second_moments, jnp.concatenate([weights, -weights]) / 2, coefficient_rows.ravel()
    )


def _iterate_derivative_terms(
    measurement: Measurement,
    coefficients: Operand,
    coefficients_tangent: Any | None,
    matrices_tangent: Any | None,
) -> Iterator[tuple[Sequence[Product], Any]]:
    """Yield the terms along which an observable changes, with the rates of change.

    At most two pairs are yielded: for the coefficients' tangent, and for the matrices' tangent.

    Args:
        measurement: an expectation value or variance.
        coefficients: array ``[c]``, the coefficients of observables.
        coefficients_tangent: the tangent of `coefficients`; None if it is zero.
        matrices_tangent: the tangent of the data of matrices; None if it is zero.

    Yields:
        a sequence of terms, and their rates, an array ``[terms]``.
    """
    observable = measurement.list_terms()
    scaled = [(term, slot) for term, slot in observable if slot is not None]
    if scaled and coefficients_tangent is not None:
        terms, slots = zip(*scaled, strict=True)
        # The coefficients of one observable are consecutive.
        yield terms, coefficients_tangent[slots[0] : slots[0] + len(slots)]
    if matrices_tangent is None:
        return
    words: list[Product] = []
    weights: list[Any] = []
    for term, slot in observable:
        coefficient = 1.0 if slot is None else coefficients[slot]
        for word, weight in _differentiate_matrices(term, matrices_tangent):
            words.append(word)
            weights.append(coefficient * weight)
    if words:
        yield words, jnp.stack(weights)


def _differentiate_matrices(term: Product, matrices_tangent: Any) -> Iterator[tuple[Product, Any]]:
    """Expand the tangent of each matrix in Pauli words, by the product rule.

    Args:
        term: a product of factors.
        matrices_tangent: tangent of the data of all matrices: real and imaginary part of each
            entry.

    Yields:
        the product with one matrix replaced by a Pauli word, and the weight of this product.

    Raises:
        DifferentiableCompileError: if a matrix is on more than ``MOST_MATRIX_WIRES`` wires.
    """
    for position, factor in enumerate(term):
        if not factor.is_matrix:
            continue
        wires, start = factor.wires, factor.matrix_offset
        if len(wires) > MOST_MATRIX_WIRES:
            raise DifferentiableCompileError(
                "the circuit is differentiated with respect to the matrix of a Hermitian "
                f"observable on {len(wires)} wires, expected at most {MOST_MATRIX_WIRES} wires. "
                "Write the observable as a sum of Pauli words."
            )
        size = 4 ** len(wires)
        entries = matrices_tangent[start : start + 2 * size].reshape(size, 2)
        others = term[:position] + term[position + 1 :]
        for word in iterate_words(len(wires)):
            matrix = compute_word_matrix(word)
            # The trace of the product with a matrix whose data are real and imaginary parts.
            products = np.stack([matrix.real.T, -matrix.imag.T], axis=-1).reshape(size, 2)
            weight = jnp.sum(products * entries) / 2 ** len(wires)
            paulis = (QubitFactor(name, (wire,)) for name, wire in zip(word, wires, strict=True))
            yield (*others, *paulis), weight
