"""Base class of Bellhop's own functions that programs call, such as formatters."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from jax.core import ShapedArray


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
        is_formatter: whether its first argument is a format string.
        has_print_options: whether NumPy print options, as JSON, may follow the format string.
        kinds: the kinds of ``callback.call`` by which programs call the function, such as
            ``"debug"``; keys of ``KINDS``. A file that calls it by another kind is rejected.
        bars: progress bars of the loop whose iterations it counts, or None.
        arguments: strings from which another process builds an equal function.
        format_text: function that replaces ``str.format`` for a format string from an untrusted
            file; None for ``str.format`` itself.
    """

    prints: ClassVar[bool] = False
    is_of_circuit: ClassVar[bool] = False
    is_formatter: ClassVar[bool] = False
    has_print_options: ClassVar[bool] = False
    kinds: ClassVar[tuple[str, ...]] = ("debug", "tap")
    bars: Any = None
    format_text: Callable[..., str] | None = None

    def __init__(self, *arguments: str) -> None:
        self.check_init_args(*arguments)
        self.arguments = arguments

    @staticmethod
    def check_init_args(*arguments: str) -> None:
        """Raise an error if the function cannot work with these constructor arguments.

        Subclasses define it; here all strings are accepted.

        Raises:
            TypeError: for a wrong number of strings.
            ValueError: for a string that is not valid, such as a level that is not a number.
        """

    def accepts_types(
        self, arguments: Sequence[ShapedArray], results: Sequence[ShapedArray]
    ) -> bool:
        """Return whether a call may have these types of arguments and results.

        Subclasses override it. Here any arguments are accepted, but no results.

        Args:
            arguments: types of the leaves of the arguments.
            results: types of the results that the call declares.
        """
        del arguments
        return not results

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function; subclasses define it."""
        raise NotImplementedError

    def format(self, fmt: str, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
        """Fill a format string with values, as ``str.format`` does."""
        return (self.format_text or str.format)(fmt, *args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.arguments == other.arguments  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), self.arguments))
