"""Functions of bellhop's own that flavours of callback call, and what is asked of them."""

from typing import Any, ClassVar


class BuiltinFunction:
    """A function of bellhop's that programs call; it is made of strings, and files hold these.

    Equal ones, of the same class and strings, are equal callbacks.

    Attributes:
        prints: whether it prints.
        is_of_circuit: whether circuits call it, of which users know no more than the QNode, its
            first argument.
        is_formatter: whether its only argument is a format string.
        bars: those of the loop that it counts, if it does.
        arguments: what another process makes an equal one from.
    """

    prints: ClassVar[bool] = False
    is_of_circuit: ClassVar[bool] = False
    is_formatter: ClassVar[bool] = False
    bars: Any = None

    def __init__(self, *arguments: str) -> None:
        self.arguments = arguments

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Do what the flavour does."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.arguments == other.arguments  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), self.arguments))
