"""Errors for functions of programs that are used as arrays before they are called."""

from typing import Any

from bellhop.base.source import user_site


class UncalledFunction:
    """Base class of callables that raise an error if they are used as arrays.

    For example ``pure_callback(f, float) + 1`` raises, where ``pure_callback(f, float)(x) + 1`` was
    meant.
    """

    def _describe_missing_call(self) -> str:
        """Return a sentence that names the callable and shows how to call it, for errors."""
        raise NotImplementedError

    def _raise_not_called(self, *_: object) -> Any:
        """Raise a `TypeError`: the method of all arithmetic operators and of indexing."""
        raise TypeError(
            f"at {user_site()}: an operand is a function, expected its result: "
            f"{self._describe_missing_call()}"
        )

    __add__ = __sub__ = __mul__ = __truediv__ = __pow__ = __matmul__ = _raise_not_called
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rpow__ = __rmatmul__ = _raise_not_called
    __neg__ = __getitem__ = _raise_not_called


def describe_uncalled(value: object) -> str | None:
    """Return the error text if a value is an `UncalledFunction`, else None."""
    return value._describe_missing_call() if isinstance(value, UncalledFunction) else None
