"""Errors for functions of programs that are used as arrays before they are called."""

from typing import Any

from bellhop.base.source import user_site


class UncalledFunction:
    """Base class of callables that make calls in programs; they are not arrays."""

    def _describe_missing_call(self) -> str:
        """Return the name of the callable and how it is called, for errors."""
        raise NotImplementedError

    def _raise_not_called(self, *_: object) -> Any:
        """Raise `TypeError`: the callable is an operand of arithmetic."""
        raise TypeError(
            f"at {user_site()}: an operand is a function, expected its result: "
            f"{self._describe_missing_call()}"
        )

    __add__ = __sub__ = __mul__ = __truediv__ = __pow__ = __matmul__ = _raise_not_called
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rpow__ = __rmatmul__ = _raise_not_called
    __neg__ = __getitem__ = _raise_not_called


def describe_uncalled(value: object) -> str | None:
    """Return the sentence for a callable that was not called, else None."""
    return value._describe_missing_call() if isinstance(value, UncalledFunction) else None
