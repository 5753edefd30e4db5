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
    """A factor of a product of observables.

    Attributes:
        name: ``Identity``, ``PauliX``, ``PauliY``, ``PauliZ``, ``Hadamard`` or ``Hermitian``.
        wires: qubit indices.
        matrix_offset: for ``Hermitian``, the offset of its entries among all matrices.
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
        """Return the code of the factor.

        Args:
            first_matrix: the offset of the circuit's matrices in the runtime's array.
        """
        if self.is_matrix:
            return (_HERMITIAN, len(self.wires), *self.wires, first_matrix + self.matrix_offset)
        return (_NAMED[self.name], *self.wires)


# The empty product is the identity.
Product = tuple[QubitFactor, ...]


def encode_product(product: Product, first_matrix: int) -> Code:
    """Return the code of a product.

    Args:
        product: the factors.
        first_matrix: the offset of the circuit's matrices in the runtime's array.
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
        products: the products.
        start: the offset of the first coefficient among all coefficients of the runtime call.
        first_matrix: the offset of the circuit's matrices in the runtime's array.

    Returns:
        integers in the prefix notation of this module.
    """
    codes = [encode_product(product, first_matrix) for product in products]
    return (_SUM, len(codes), start, *itertools.chain.from_iterable(codes))
