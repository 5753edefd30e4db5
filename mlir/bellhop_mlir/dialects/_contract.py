"""The custom calls in ``runtime/contract.toml``, with types as for ``_signature``.

``params: f64[rows?, n]`` is ``tensor<[?x]?xf64>``, ``wires?: i32[]`` is ``[tensor<i32>]``,
``x: f64|c64[]`` is ``tensor<f64> or tensor<complex<f32>>`` and ``value: any ...`` is ``...``.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

_CONTRACT: dict[str, Any] = tomllib.loads(
    (Path(__file__).parents[1] / "contract.toml").read_text(encoding="utf-8")
)


class CustomCall(NamedTuple):
    """Signature of a custom call in ``runtime/contract.toml``.

    Attributes:
        operands: types of the operands, in the notation of ``_signature.py``: in
            ``tensor<[?x]?xf64>``, ``?`` is any size, and the dimension in brackets is optional.
        results: types of the results, in the same notation.
        attributes: types of the attributes by name, as the contract writes them: ``array<i64>``.
    """

    operands: tuple[str, ...]
    results: tuple[str, ...]
    attributes: Mapping[str, str]


# Names of the runtime's custom calls.
CUSTOM_CALLS = frozenset(_CONTRACT)


def find_custom_call(target: str) -> CustomCall:
    """Look up the signature of a custom call in ``runtime/contract.toml``.

    Args:
        target: name of the custom call, such as ``bellhop_tap``.

    Raises:
        KeyError: if the contract has no custom call of this name.
    """
    declared = _CONTRACT[target]
    operands, results = (
        tuple(map(_parse_form, declared[role])) for role in ("operands", "results")
    )
    return CustomCall(operands, results, declared["attributes"])


def _parse_form(declared: str) -> str:
    """Convert a type of the contract to the notation of ``_signature.py``.

    Args:
        declared: an operand or result in the contract, such as ``params: f64[rows?, n]``. A name
            that ends with ``?`` is optional; a type ``any ...`` is any number of further values.

    Returns:
        the type, such as ``tensor<[?x]?xf64>``; the name of the operand is dropped. An optional
        type is in brackets, ``[tensor<i32>]``; for ``any ...`` the result is ``...``.
    """
    name, _, type_ = declared.partition(": ")
    if type_.endswith(" ..."):
        return "..."
    elements, _, sizes = type_.removesuffix("]").partition("[")
    shape = "".join(map(_parse_size, sizes.split(", "))) if sizes else ""
    elements = elements.replace("c128", "complex<f64>").replace("c64", "complex<f32>")
    form = " or ".join(f"tensor<{shape}{element}>" for element in elements.split("|"))
    return f"[{form}]" if name.endswith("?") else form


def _parse_size(declared: str) -> str:
    """Convert a dimension: ``3`` to ``3x``, ``n`` to ``?x``, the optional ``n?`` to ``[?x]``."""
    if declared.isdecimal():
        return f"{declared}x"
    return "[?x]" if declared.endswith("?") else "?x"
