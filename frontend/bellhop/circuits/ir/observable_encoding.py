"""Encoding of observables for the runtime: integers in prefix notation.

    0 to 4, wire                    Identity, PauliX, PauliY, PauliZ, Hadamard
    5, count, wires..., start       a Hermitian matrix, with the offset of its entries
    6, count, factors...            a product of factors
    7, count, start, products...    a sum of products, with the offset of its coefficients

``runtime/contract.toml`` defines the numbers.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

Code = tuple[int, ...]

_NAMED = {"Identity": 0, "PauliX": 1, "PauliY": 2, "PauliZ": 3, "Hadamard": 4}
_HERMITIAN, _PRODUCT, _SUM = 5, 6, 7


class QubitFactor(NamedTuple):
    """A factor of a product of observables, on qubit indices.

    Attributes:
        name: ``Identity``, ``PauliX``, ``PauliY``, ``PauliZ``, ``Hadamard`` or ``Hermitian``.
        wires: qubit indices.
        matrix_offset: for ``Hermitian``, the offset of the matrix's first entry in
            ``MeasurementRequest.stack_matrices()``; 0 for other names.
    """

    name: str
    wires: tuple[int, ...]
    matrix_offset: int = 0

    @property
    def is_matrix(self) -> bool:
        """Whether the factor is a Hermitian matrix."""
        return self.name == "Hermitian"

    @property
    def is_diagonal(self) -> bool:
        """Whether the factor is the identity or Pauli Z."""
        return self.name in ("Identity", "PauliZ")

    def encode(self, first_matrix: int) -> Code:
        """Encode this factor as integers for the runtime.

        In the prefix notation of ``observable_encoding``, ``PauliZ`` on qubit 2 is ``(3, 2)``.

        Args:
            first_matrix: the index of the request's first matrix entry in the runtime's array of
                numbers.

        Returns:
            the code of the name and the qubit; for a matrix ``(5, count, qubits..., start)``, where
            ``start`` is the index of its first entry in the runtime's array.
        """
        if self.is_matrix:
            return (_HERMITIAN, len(self.wires), *self.wires, first_matrix + self.matrix_offset)
        return (_NAMED[self.name], *self.wires)


# The empty product is the identity.
Product = tuple[QubitFactor, ...]


def encode_product(product: Product, first_matrix: int) -> Code:
    """Encode a product of factors as integers for the runtime.

    The product of ``PauliX`` on qubit 0 and ``PauliZ`` on qubit 2 is ``(6, 2, 1, 0, 3, 2)``, with
    the prefix ``6, 2`` (a product of two). One factor has no prefix: ``PauliZ`` is ``(3, 2)``.

    Args:
        product: the factors; an empty product is the identity on qubit 0.
        first_matrix: the index of the request's first matrix entry in the runtime's array of
            numbers.
    """
    if not product:
        # The code of the identity needs a wire; any wire has the same effect.
        return (_NAMED["Identity"], 0)
    codes = [factor.encode(first_matrix) for factor in product]
    if len(codes) == 1:
        return codes[0]
    return (_PRODUCT, len(codes), *itertools.chain.from_iterable(codes))


def encode_sum(products: Sequence[Product], start: int, first_matrix: int) -> Code:
    """Encode a linear combination of products as integers for the runtime.

    Args:
        products: the terms, without their coefficients.
        start: the index of the first product's coefficient among all coefficients of the runtime
            call; the other products' coefficients follow it.
        first_matrix: the index of the request's first matrix entry in the runtime's array of
            numbers.

    Returns:
        ``(7, count, start, ...)``, followed by the code of each product.
    """
    codes = [encode_product(product, first_matrix) for product in products]
    return (_SUM, len(codes), start, *itertools.chain.from_iterable(codes))
