"""print: show values when the program runs."""

import builtins
import string
from typing import Any

from bellhop.callbacks.callback import call_for_effect


def print(fmt: Any, *args: Any, **kwargs: Any) -> None:
    """Print when the program gets here, in program order.

    Args:
        fmt: a format string, filled with the values of ``args`` and ``kwargs`` as
            ``str.format`` does; or any object, printed with ``args`` after it as the
            builtin ``print`` does.
        args: pytrees of arrays of any shapes and dtypes.
        kwargs: for named fields of the format string.

    Raises:
        ValueError: when traced, where the fields of the format string and the values differ.

    Example:
        >>> import bellhop
        >>> @bellhop.qjit
        ... def f(x):
        ...     bellhop.debug.print("x = {x:.3f}", x=x)
        ...     return x
        >>> _ = f(0.5)
        x = 0.500
    """
    if isinstance(fmt, str):
        _check_fields(fmt, args, kwargs)
        formatter = _Formatter(fmt)
        call_for_effect(formatter, args, kwargs, "print")
    elif kwargs:
        raise ValueError(
            f"print takes keyword arguments for a format string only, and its first argument is "
            f"a {type(fmt).__name__}."
        )
    else:
        call_for_effect(builtins.print, (fmt, *args), {}, "print")


class _Formatter:
    """Prints through a format string; equal strings are equal callbacks."""

    def __init__(self, fmt: str) -> None:
        self._fmt = fmt
        self.__name__ = "print"

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        builtins.print(self._fmt.format(*args, **kwargs))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Formatter) and self._fmt == other._fmt

    def __hash__(self) -> int:
        return hash(self._fmt)


def _check_fields(fmt: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    fields = [
        name.split(".")[0].split("[")[0]
        for _, name, _, _ in string.Formatter().parse(fmt)
        if name is not None
    ]
    positional = [name for name in fields if name == "" or name.isdigit()]
    named = {name for name in fields if name and not name.isdigit()}
    automatic = sum(name == "" for name in positional)
    needed = max([automatic, *(int(name) + 1 for name in positional if name)], default=0)
    if needed != len(args):
        raise ValueError(
            f"print({fmt!r}) has fields for {needed} positional values and got {len(args)}."
        )
    if missing := sorted(named - set(kwargs)):
        raise ValueError(f"print({fmt!r}) has no value for {', '.join(missing)}.")
    if unused := sorted(set(kwargs) - named):
        raise ValueError(f"print({fmt!r}) has no field for {', '.join(unused)}.")
