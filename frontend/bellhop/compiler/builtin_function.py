"""Base class of Bellhop's own functions that programs call, such as formatters."""

from typing import Any, ClassVar


class BuiltinFunction:
    """A function of Bellhop's own that programs call, such as a printing function.

    It is defined by strings, so that a saved program can name it. Functions of the same class with
    the same strings are equal, so their callbacks are equal.

    Args:
        *arguments: the strings, such as a format string.

    Attributes:
        prints: whether the function prints.
        is_of_circuit: whether circuits call it; then errors show only the QNode, its first
            argument.
        is_formatter: whether its only argument is a format string.
        bars: progress bars of the loop whose iterations it counts, or None.
        arguments: strings from which another process builds an equal function.
    """

    prints: ClassVar[bool] = False
    is_of_circuit: ClassVar[bool] = False
    is_formatter: ClassVar[bool] = False
    bars: Any = None

    def __init__(self, *arguments: str) -> None:
        self.arguments = arguments

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function; subclasses define it."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.arguments == other.arguments  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), self.arguments))
