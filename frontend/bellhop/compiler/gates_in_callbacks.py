"""Callbacks that quantum functions call make no gates: these would never be applied.

The quantum function is traced before the callback runs::

    @qml.qnode(device)
    def circuit(x):
        bellhop.callback(lambda x: (qml.RX(float(x), wires=0), None)[1])(x)   # CircuitError
        return qml.expval(qml.Z(0))
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bellhop.errors import CircuitError
from bellhop.tracing.state import current_circuit


@dataclass(frozen=True)
class _GateFreeFunction:
    """The function of a callback that is called in a circuit: it makes no gates.

    Those of equal functions are equal, as JAX asks of the parameters of equations.

    Attributes:
        function: the user's.
        where: the QNode, for errors.
    """

    function: Callable[..., Any]
    where: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        with _queue_type()(self.where):
            return self.function(*args, **kwargs)


def forbid_gates(function: Callable[..., Any], circuit: str | None) -> Callable[..., Any]:
    """Return the function of a callback; in a circuit, one that makes no gates.

    Args:
        function: the user's.
        circuit: what ``current_circuit_name`` was where the callback is called.
    """
    return function if circuit is None else _GateFreeFunction(function, circuit)


@functools.cache
def _queue_type() -> Any:
    from pennylane.queuing import AnnotatedQueue

    class NoQueue(AnnotatedQueue):
        """Takes nothing."""

        def __init__(self, where: str) -> None:
            super().__init__()
            self._where = where

        def append(self, obj: Any, **_: object) -> None:
            raise CircuitError(
                f"{self._where}: {getattr(obj, 'name', type(obj).__name__)} stands in a callback, "
                "which runs when the circuit has been compiled, and is no part of it. Take it "
                "out; where it is not meant to be applied, make it under "
                "qml.QueuingManager.stop_recording()."
            )

    return NoQueue


def current_circuit_name() -> str | None:
    """Return the QNode that is traced here, for errors, or None."""
    circuit = current_circuit()
    return circuit.where if circuit is not None and circuit.has_users_callbacks else None
