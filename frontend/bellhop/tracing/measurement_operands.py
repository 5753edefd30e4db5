"""Errors for measurements that are operands of arithmetic or comparisons."""

from typing import Any, NoReturn

from bellhop.base.source import user_site
from bellhop.tracing.state import is_tracing


def reject_operand(measurement: Any, _: object) -> Any:
    """Raise an error for arithmetic with a measurement, ``qml.expval(qml.Z(0)) * 2``.

    PennyLane's measurement processes have this function as the method ``__mul__`` etc., for all
    binary operators and comparisons.

    Args:
        measurement: the measurement, an operand.
        _: the other operand.

    Returns:
        ``NotImplemented`` outside of programs, so that Python raises its own error.

    Raises:
        TypeError: while a Bellhop program is traced; names the user's line and the remedy.
    """
    return reject_unary_operand(measurement) if is_tracing() else NotImplemented


def reject_unary_operand(measurement: Any) -> NoReturn:
    """Raise an error for a unary operator on a measurement, ``-qml.expval(qml.Z(0))``.

    PennyLane's measurement processes have this function as the method ``__neg__`` etc. A
    measurement has no value in the quantum function.

    Raises:
        TypeError: naming the user's line and the remedy.
    """
    raise TypeError(
        f"at {user_site()}: an operand is the measurement {measurement}, expected a number; its "
        "value is known after the QNode only. Scale or add observables, as in "
        "qml.expval(2 * qml.Z(0)), or compute with the QNode's result outside of the QNode."
    )
