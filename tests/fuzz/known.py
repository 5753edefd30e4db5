"""Faults that are known and open: how to recognize them, and where they are written down."""

from typing import NamedTuple


class Known(NamedTuple):
    """A known fault.

    Attributes:
        details: a regular expression that the details of a verdict match.
        source: a regular expression that the script matches.
        where: what is wrong, and where it is written down.
    """

    details: str
    source: str
    where: str


KNOWN = (
    Known(
        r'linear_combination.py", line \d+, in _unflatten',
        "",
        "PennyLane makes no LinearCombination of traced and other coefficients",
    ),
    Known(
        r"call \d+, [\w, ]+: \[.*\] instead of \[",
        r"(?s)mode: derivative.*jnp\.array\(\[0\.3, 1\.2, 0\.7\]\) \* .*(while|for|fori)_loop",
        "doc/concepts/circuits.md, Batches: derivatives of dynamic loops run rows one by one",
    ),
)
