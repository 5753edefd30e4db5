"""Observables as the runtime reads them: products of factors, written in prefix order.

    0 to 4, wire                    Identity, PauliX, PauliY, PauliZ, Hadamard
    5, count, wires..., start       a Hermitian matrix, whose data begin there
    6, count, factors...            a product of these
    7, count, start, products...    a sum of products, whose coefficients begin there

The numbers are those of ``runtime/contract.toml``.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

Code = tuple[int, ...]

_NAMED = {"Identity": 0, "PauliX": 1, "PauliY": 2, "PauliZ": 3, "Hadamard": 4}
_HERMITIAN, _PRODUCT, _SUM = 5, 6, 7


class QubitFactor(NamedTuple):
    """A factor of a product.

    Attributes:
        name: of one that devices know by name, on one qubit; ``Hermitian`` of a matrix.
        wires: its qubits.
        matrix_offset: of a matrix, where its data begin among those of all matrices.
    """

    name: str
    wires: tuple[int, ...]
    matrix_offset: int = 0

    @property
    def is_matrix(self) -> bool:
        """Whether it is known by its matrix alone."""
        return self.name == "Hermitian"

    @property
    def is_diagonal(self) -> bool:
        """Whether it is the identity or Pauli Z."""
        return self.name in ("Identity", "PauliZ")

    def encode(self, first_matrix: int) -> Code:
        """Return its code; the data of matrices begin at ``first_matrix``."""
        if self.is_matrix:
            return (_HERMITIAN, len(self.wires), *self.wires, first_matrix + self.matrix_offset)
        return (_NAMED[self.name], *self.wires)


# Nothing is the identity.
Product = tuple[QubitFactor, ...]


def encode_product(product: Product, first_matrix: int) -> Code:
    """Return the code of a product; the data of matrices begin at ``first_matrix``."""
    if not product:
        # The identity stands on no wire in particular, and the code wants one.
        return (_NAMED["Identity"], 0)
    codes = [factor.encode(first_matrix) for factor in product]
    if len(codes) == 1:
        return codes[0]
    return (_PRODUCT, len(codes), *itertools.chain.from_iterable(codes))


def encode_sum(products: Sequence[Product], start: int, first_matrix: int) -> Code:
    """Return the code of a sum of products, whose coefficients begin at ``start``."""
    codes = [encode_product(product, first_matrix) for product in products]
    return (_SUM, len(codes), start, *itertools.chain.from_iterable(codes))
