"""Callbacks that quantum functions call make no gates: these would never be applied.

The quantum function is traced before the callback runs::

    @qml.qnode(device)
    def circuit(x):
        bellhop.callback(lambda x: (qml.RX(float(x), wires=0), None)[1])(x)   # CircuitError
        return qml.expval(qml.Z(0))
"""

import functools
from collections.abc import Callable
from typing import Any

from bellhop.errors import CircuitError


def without_gates(where: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a callback's function, which makes no gates.

    Args:
        where: the QNode that it is called in, for errors.
        function: of the callback.
    """
    from pennylane.queuing import AnnotatedQueue

    class NoQueue(AnnotatedQueue):
        """Takes nothing."""

        def append(self, obj: Any, **_: Any) -> None:
            raise CircuitError(
                f"{where}: {getattr(obj, 'name', type(obj).__name__)} stands in a callback, "
                "which runs when the circuit has been compiled, and is no part of it. Take it "
                "out; where it is not meant to be applied, make it under "
                "qml.QueuingManager.stop_recording()."
            )

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        with NoQueue():
            return function(*args, **kwargs)

    return called
