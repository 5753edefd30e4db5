"""`debug_assert`: assertions about values of a running program."""

from typing import Any, ClassVar

import jax
import numpy as np

from bellhop.base.public_function import public_function
from bellhop.callbacks.callback import call_for_effect
from bellhop.callbacks.callback_type import DebugCall
from bellhop.compiler.builtin_function import BuiltinFunction
from bellhop.compiler.callback_target import describe_value, is_array_like
from bellhop.tracing.state import current_options

ASSERTION = DebugCall("debug_assert")


@public_function
def debug_assert(condition: Any, error: str) -> None:
    """Raise an error if a condition is false when the program reaches this call.

    Unlike ``assert``, which Python evaluates while the program is traced, ``debug_assert`` checks
    the values of a run.  Programs compiled with ``disable_assertions=True`` contain no assertions.

    Args:
        condition: a boolean or a number; for an array or a pytree of arrays, every element must be
            true.
        error: the error message.

    Raises:
        RuntimeError: from the call of the program, with the message `error`.
        TypeError: when traced, if ``condition`` or ``error`` has another type.

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

    Same interface as Catalyst's ``debug_assert``.
    """
    if not isinstance(error, str):
        raise TypeError(
            f"debug_assert: the message is {error!r}, expected a string. Pass it as second "
            "argument."
        )
    _check(condition, _Assertion(error))


def assert_statement(condition: Any, *message: str) -> None:
    """Check the traced condition of an ``assert`` statement when the program runs.

    AutoGraph converts the statement to a call of this function. Programs compiled with
    ``disable_assertions=True`` check nothing.

    Args:
        condition: a boolean, a number or a pytree of arrays.
        *message: the message of the statement, if it has one.

    Raises:
        TypeError: if a leaf of the condition is not an array or a number.
    """
    _check(condition, _Statement(*message))


def _check(condition: Any, assertion: BuiltinFunction) -> None:
    """Check a condition's type, and add the assertion to the traced program.

    The assertion raises when the program runs, if an element of the condition is false. Programs
    compiled with ``disable_assertions=True`` get no assertion. Outside of tracing the assertion is
    evaluated at once.

    Args:
        condition: a pytree of booleans, numbers and arrays, traced or concrete.
        assertion: the function that the program calls with the condition.

    Raises:
        TypeError: if a leaf of the condition is not an array or a number.
    """
    for leaf in jax.tree.leaves(condition, is_leaf=lambda leaf: leaf is None):
        if not is_array_like(leaf):
            raise TypeError(
                f"debug_assert: the condition is {describe_value(leaf)}, expected a bool, a number "
                "or an array. Pass it as first argument."
            )
    options = current_options()
    if options is None or not options.disable_assertions:
        call_for_effect(assertion, (condition,), {}, ASSERTION)


class _Assertion(BuiltinFunction):
    """Function that a running program calls, which raises if a condition is false.

    Its argument is the condition, a pytree whose elements must all be true. Its constructor takes
    the message of the exception.

    Attributes:
        error: type of the exception, `RuntimeError`; subclasses have another type.
    """

    __name__ = "debug_assert"
    error: ClassVar[type[Exception]] = RuntimeError

    def __call__(self, condition: Any) -> None:
        """Raise the exception unless all elements of the condition are true."""
        if not all(map(np.all, jax.tree.leaves(condition))):
            raise self.error(*self.arguments)


class _Statement(_Assertion):
    """Function that a running program calls for a converted ``assert`` statement.

    It raises `AssertionError` if an element of its argument, the condition, is false. Its
    constructor takes the message, if the statement has one.
    """

    __name__ = "assert"
    error = AssertionError
