"""Errors for measurements that are operands of arithmetic or comparisons."""

from typing import Any, NoReturn

from bellhop.base.source import user_site
from bellhop.tracing.state import is_tracing


def reject_operand(measurement: Any, _: object) -> Any:
    """Raise the error of `reject_only_operand` while a program is traced.

    It is the method of each binary operator and comparison of measurement processes.

    Returns:
        ``NotImplemented`` outside of programs, so that Python raises its own error.
    """
    return reject_only_operand(measurement) if is_tracing() else NotImplemented


def reject_only_operand(measurement: Any) -> NoReturn:
    """Raise an error: a measurement has no value in the quantum function.

    It is the method of each unary operator of measurement processes.

    Raises:
        TypeError: naming the user's line and the remedy.
    """
    raise TypeError(
        f"at {user_site()}: an operand is the measurement {measurement}, expected a number; its "
        "value is known after the QNode only. Scale or add observables, as in "
        "qml.expval(2 * qml.Z(0)), or compute with the QNode's result outside of the QNode."
    )
