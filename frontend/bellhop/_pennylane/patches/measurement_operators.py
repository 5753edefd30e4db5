"""Raise an error that names the remedy for arithmetic on measurements in a quantum function.

For ``return 2 * qml.expval(qml.Z(0))`` in a program::

    without this patch    TypeError: unsupported operand type(s) for *: 'int' and 'ExpectationMP'
    with it               ... Scale or add observables, as in qml.expval(2 * qml.Z(0)), or ...

Replaced: the arithmetic operators and comparisons of ``MeasurementProcess``, which has none.
Versions: 0.45.
Upstream: measurement processes whose operators raise such an error.
Issue: none reported.
Installed: with ``qnode_calls``.
Test: ``test_circuit_errors.py``.
"""

from collections.abc import Callable
from typing import Any

from bellhop._patching import patch, replace

_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
_COMPARISONS = ("lt", "le", "gt", "ge")
_UNARY = ("neg", "pos", "abs")


@patch("the operators of MeasurementProcess", "arithmetic on measurements names the remedy")
def patch_measurement_operators(
    process_type: type, operate: Callable[[Any, Any], Any], operate_alone: Callable[[Any], Any]
) -> None:
    """Give measurement processes arithmetic and comparisons that raise an error.

    Args:
        process_type: the class ``MeasurementProcess``.
        operate: the new method for all binary operators and comparisons; raises the error.
        operate_alone: the new method for all unary operators; raises the error.
    """
    for name in [*_BINARY, *(f"r{name}" for name in _BINARY), *_COMPARISONS]:
        replace(process_type, f"__{name}__", operate)
    for name in _UNARY:
        replace(process_type, f"__{name}__", operate_alone)
