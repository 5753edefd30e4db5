"""Loops in circuits that become tapes: Python runs each iteration while the circuit is traced.

``for_loop(0, 3)(lambda i: qml.RX(x * i, 0))()`` puts ``RX(x * 0)``, ``RX(x * 1)`` and ``RX(x * 2)``
on the tape.  A loop whose length the program computes is refused.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NoReturn


class UnrolledLoops:
    """The ``for_loop`` and ``while_loop`` of a circuit that becomes a tape."""

    unrolls = True

    def for_loop(self, n_iterations: Any, body: Callable[..., Any], carried: Any) -> Any:
        """Run a loop of known length; return the carried values."""
        if not isinstance(n_iterations, int):
            self._refuse("a for_loop whose bounds are computed in the program")
        for iteration in range(n_iterations):
            carried = body(carried, iteration)
        return carried

    def while_loop(self, condition: Any, body: Any, carried: Any) -> NoReturn:
        """Refuse a loop of unknown length."""
        self._refuse("a while_loop")

    @abstractmethod
    def _refuse(self, construct: str) -> NoReturn:
        """Raise a ``CompileError`` which says why the circuit cannot hold a construct."""
