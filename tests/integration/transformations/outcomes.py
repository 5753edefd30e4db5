"""What may come of a cell of the table: values and calls, or a documented error."""

import io
from dataclasses import dataclass
from typing import Any

import numpy as np


class Log(io.TextIOBase):
    """What a callback was given, call by call; as a stream, what was printed line by line."""

    def __init__(self) -> None:
        self.calls: list[np.ndarray] = []

    def __call__(self, x: Any) -> None:
        """Keep one argument."""
        self.calls.append(np.array(x))

    def write(self, text: str) -> int:
        """Keep a printed number."""
        if text.strip():
            self(float(text))
        return len(text)

    @property
    def values(self) -> list[float]:
        """All values in the order that they came in, batches taken apart."""
        return [float(value) for call in self.calls for value in call.ravel()]


@dataclass(frozen=True)
class Works:
    """The program returns what it should.

    Attributes:
        seen: the values that the callback gets, in program order; the program's own where
            None.
        calls: how often it is called; once for each value where None.
    """

    seen: tuple[float, ...] | None = None
    calls: int | None = None


@dataclass(frozen=True)
class Refused:
    """The program raises while it is traced, and the callback is not called.

    Attributes:
        error: the type of the exception.
        match: a regular expression for its text.
        why: what the documentation says.
    """

    error: type[Exception]
    match: str
    why: str


Outcome = Works | Refused
