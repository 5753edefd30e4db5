"""The same constructs of a circuit, compiled and not: circuits take one of these as an argument."""

from collections.abc import Callable
from typing import Any

import pennylane as qml

import bellhop


class OfBellhop:
    measure = staticmethod(bellhop.measure)

    @staticmethod
    def cond(holds: Any, gates: Callable[[], Any]) -> None:
        bellhop.cond(holds)(gates)()

    @staticmethod
    def loop(n: Any, body: Callable[[Any, Any], Any], y: Any) -> Any:
        return bellhop.for_loop(0, n, 1)(body)(y)


class OfPennyLane:
    measure = staticmethod(qml.measure)

    @staticmethod
    def cond(holds: Any, gates: Callable[[], Any]) -> None:
        qml.cond(holds, gates)()

    @staticmethod
    def loop(n: int, body: Callable[[Any, Any], Any], y: Any) -> Any:
        for i in range(n):
            y = body(i, y)
        return y
