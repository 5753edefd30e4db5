"""Observables as the runtime reads them: products of factors, written in prefix order.

    0 to 4, wire                    Identity, PauliX, PauliY, PauliZ, Hadamard
    5, count, wires..., start       a Hermitian matrix, whose data begin there
    6, count, factors...            a product of these
    7, count, start, products...    a sum of products, whose coefficients begin there

The numbers are those of ``runtime/contract.toml``.
"""

from collections.abc import Iterator, Sequence

Code = tuple[int, ...]

_NAMED = {"Identity": 0, "PauliX": 1, "PauliY": 2, "PauliZ": 3, "Hadamard": 4}
_HERMITIAN, _PRODUCT, _SUM = 5, 6, 7


def named(name: str, wire: int) -> Code:
    """Return the code of an observable that has a name, on a wire."""
    return (_NAMED[name], wire)


def hermitian(wires: Sequence[int], start: int) -> Code:
    """Return the code of a Hermitian matrix, whose data begin at ``start``."""
    return (_HERMITIAN, len(wires), *wires, start)


def hermitian_parts(factor: Code) -> tuple[Code, int] | None:
    """Return the wires of a Hermitian matrix and where its data begin; None for others."""
    return (factor[2:-1], factor[-1]) if factor[0] == _HERMITIAN else None


def wires_of(factor: Code) -> Code:
    """Return the wires of a factor."""
    parts = hermitian_parts(factor)
    return factor[1:] if parts is None else parts[0]


def is_diagonal(factor: Code) -> bool:
    """Tell whether a factor is the identity or Pauli Z."""
    return factor[0] in (_NAMED["Identity"], _NAMED["PauliZ"])


def product(factors: Sequence[Code]) -> Code:
    """Return the code of a product."""
    if not factors:
        # The identity stands on no wire in particular, and the code wants one.
        return named("Identity", 0)
    if len(factors) == 1:
        return factors[0]
    return (_PRODUCT, len(factors), *(number for factor in factors for number in factor))


def factors_of(product: Code) -> Iterator[Code]:
    """Yield the factors of a product."""
    position = 2 if product[0] == _PRODUCT else 0
    while position < len(product):
        length = product[position + 1] + 3 if product[position] == _HERMITIAN else 2
        yield product[position : position + length]
        position += length


def linear_combination(products: Sequence[Code], start: int) -> Code:
    """Return the code of a sum of products, whose coefficients begin at ``start``."""
    return (_SUM, len(products), start, *(number for each in products for number in each))


def with_matrices_after(count: int, term: Code) -> Code:
    """Return a product whose matrices' data come after ``count`` numbers of other data."""
    return product(
        [
            hermitian(parts[0], parts[1] + count) if (parts := hermitian_parts(factor)) else factor
            for factor in factors_of(term)
        ]
    )
