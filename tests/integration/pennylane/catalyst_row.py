"""Programs that Catalyst runs too: how their results are written in the documentation."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import pennylane as qml


class Row(NamedTuple):
    """A program, a description of it, and the result that Catalyst 0.15.0 gave."""

    description: str
    catalyst: str
    run: Callable[[], Any]


def format_value(value: Any) -> str:
    """Return a value in short: the types and elements of arrays."""
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(format_value, value))})"
    if isinstance(value, (jax.Array, np.ndarray)):
        weak = "~" if getattr(value, "weak_type", False) else ""
        array = np.asarray(value)
        if array.dtype.kind in "fc":
            array = np.round(array.astype(np.result_type(array, float)), 4) + 0.0
        return f"{weak}{value.dtype} {array.tolist()}"
    return str(value)


def describe_result(run: Callable[[], Any]) -> str:
    """Return the formatted result of a program, or the class of its error."""
    try:
        return format_value(run())
    except Exception as error:
        return type(error).__name__


def node(body: Callable[..., Any], wires: Any = 2, shots: Any = None, **options: Any) -> Any:
    """Return a QNode on Lightning that measures the last element of what `body` returns."""
    measured = lambda *args: result[-1] if isinstance(result := body(*args), list) else result
    circuit = qml.QNode(measured, qml.device("lightning.qubit", wires=wires), **options)
    return qml.set_shots(circuit, shots)


def rx(x: Any) -> list[Any]:
    return [qml.RX(x, 0), qml.expval(qml.Z(0))]


def double(x: Any) -> Any:
    return 2 * x


def Z() -> Any:  # noqa: N802
    return qml.expval(qml.Z(0))
