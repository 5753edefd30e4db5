"""Errors for gates in callbacks of quantum functions, which would never be applied.

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
    """A callback's function that raises an error if it creates a PennyLane gate.

    `forbid_gates` makes it for callbacks in quantum functions. Instances with equal functions are
    equal, as required of equation parameters.

    Attributes:
        function: the user's function.
        where: description of the QNode and its line, for errors.
    """

    function: Callable[..., Any]
    where: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function with a queue that raises an error for each gate."""
        with _queue_type()(self.where):
            return self.function(*args, **kwargs)


def forbid_gates(function: Callable[..., Any], circuit: str | None) -> Callable[..., Any]:
    """Wrap a callback's function to raise an error if it creates a PennyLane gate.

    `circuit` is the description of the QNode in which the function is called; None outside of
    circuits, for which `function` itself is returned.
    """
    return function if circuit is None else _GateFreeFunction(function, circuit)


@functools.cache
def _queue_type() -> Any:
    """Return the class of PennyLane queues that raise an error for each appended gate.

    Defined at the first call, so that PennyLane is imported only if it is used.
    """
    from pennylane.queuing import AnnotatedQueue

    class NoQueue(AnnotatedQueue):
        """PennyLane queue that raises an error when a gate is appended.

        Args:
            where: description of the QNode, with which the error begins.
        """

        def __init__(self, where: str) -> None:
            super().__init__()
            self._where = where

        def append(self, obj: Any, **_: object) -> None:
            """Raise a `CircuitError` that names the gate, in place of queuing it."""
            raise CircuitError(
                f"{self._where}: {getattr(obj, 'name', type(obj).__name__)} is created in a "
                "callback, which runs after the circuit was compiled, so it would not be applied. "
                "Move the operation out of the callback; if the operation is not meant to be "
                "applied, create it under qml.QueuingManager.stop_recording()."
            )

    return NoQueue


def current_circuit_name() -> str | None:
    """Return the name and line of the QNode that is being traced, for errors.

    None outside of QNodes, and while PennyLane's transforms execute tapes in their own callbacks,
    which may create gates.
    """
    circuit = current_circuit()
    return circuit.where if circuit is not None and circuit.has_users_callbacks else None
