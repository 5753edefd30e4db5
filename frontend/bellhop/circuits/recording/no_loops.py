"""Circuits that become tapes, which have no loops.

Python runs each iteration of a loop of known length while the quantum function is traced:
``for_loop(0, 3)(lambda i: qml.RX(x * i, 0))()`` puts ``RX(x * 0)``, ``RX(x * 1)`` and ``RX(x * 2)``
on the tape.  A loop whose length the program computes is refused.
"""

from abc import abstractmethod
from typing import Any, NoReturn


class NoLoops:
    """The ``for_loop`` and ``while_loop`` of a circuit that becomes a tape."""

    def for_loop(self, n_iterations: Any, body: Any, carried: Any) -> NoReturn:
        """Refuse a loop of computed length."""
        self._refuse("a for_loop whose bounds are computed in the program")

    def while_loop(self, condition: Any, body: Any, carried: Any) -> NoReturn:
        """Refuse a loop of unknown length."""
        self._refuse("a while_loop")

    @abstractmethod
    def _refuse(self, construct: str) -> NoReturn:
        """Raise a ``CompileError`` which says why the circuit cannot hold a construct."""
