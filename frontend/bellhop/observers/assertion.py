"""debug_assert: a condition that must hold when the program runs."""

from typing import Any, ClassVar

import jax
import numpy as np

from bellhop.callbacks.callback import call_for_effect
from bellhop.callbacks.callback_type import Report
from bellhop.compiler.builtin_function import BuiltinFunction
from bellhop.compiler.callback_target import describe_value, is_array_like
from bellhop.tracing.state import current_options

ASSERTION = Report("debug_assert")


def debug_assert(condition: Any, error: str) -> None:
    """Raise an error when the program gets here and a condition does not hold.

    Unlike ``assert``, which Python evaluates when the program is traced, it sees the values of
    the run.  Programs that are compiled with ``disable_assertions=True`` hold none.

    Args:
        condition: a bool or a number; of an array, and of a pytree of arrays, every element
            must be true.
        error: the message.

    Raises:
        RuntimeError: from the call of the program, with that message.
        TypeError: when traced, where the condition or the message is something else.

    Example:
        >>> import bellhop
        >>> @bellhop.qjit
        ... def f(x):
        ...     bellhop.debug_assert(x < 5, "x must be below 5")
        ...     return x * 8
        >>> f(4)
        Array(32, dtype=int64, weak_type=True)
        >>> f(6)  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        RuntimeError: x must be below 5

    The interface is that of Catalyst's ``debug_assert``.
    """
    if not isinstance(error, str):
        raise TypeError(f"debug_assert takes a message after the condition, got {error!r}.")
    _check(condition, _Assertion(error))


def assert_statement(condition: Any, *message: str) -> None:
    """Do what ``assert`` does of a condition that the program computes."""
    _check(condition, _Statement(*message))


def _check(condition: Any, assertion: BuiltinFunction) -> None:
    for leaf in jax.tree.leaves(condition, is_leaf=lambda leaf: leaf is None):
        if not is_array_like(leaf):
            raise TypeError(
                f"debug_assert takes a condition first, a bool, a number or an array; got "
                f"{describe_value(leaf)}."
            )
    options = current_options()
    if options is None or not options.disable_assertions:
        call_for_effect(assertion, (condition,), {}, ASSERTION)


class _Assertion(BuiltinFunction):
    """Checks a condition; it is made of the error."""

    __name__ = "debug_assert"
    error: ClassVar[type[Exception]] = RuntimeError

    def __call__(self, condition: Any) -> None:
        if not all(map(np.all, jax.tree.leaves(condition))):
            raise self.error(*self.arguments)


class _Statement(_Assertion):
    """Checks the condition of an ``assert`` statement; it is made of its message, if any."""

    __name__ = "assert"
    error = AssertionError
