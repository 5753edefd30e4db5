"""Raise the original exception of a callback in a plain ``jax.jit``.

For ``jax.jit(lambda x: bellhop.pure_callback(f, float)(x))(1.0)``, where ``f`` raises
``KeyError("no")``::

    without this patch    JaxRuntimeError: INTERNAL: KeyError: 'no' (raised in callback 'f', ...
    with it               KeyError: 'no'

Replaced: ``jax.errors.JaxRuntimeError.__new__``, which XLA's C++ calls with the message.
Versions: 0.10 to 0.12.
Upstream: FFI handlers whose errors carry a Python object.
Issue: jax#26102.
Installed: when a call of Bellhop is first lowered in a plain ``jax.jit``.
Test: ``test_exceptions_in_plain_jit.py``.
"""

from collections.abc import Callable
from typing import Any

import jax

from bellhop._patching import patch, replace


@patch("jax.errors.JaxRuntimeError.__new__", "a plain jax.jit raises what a callback raised")
def patch_runtime_error(find_exception: Callable[[str], BaseException | None]) -> None:
    """Make ``JaxRuntimeError(message)`` return the callback's original exception.

    XLA's C++ raises the object that ``JaxRuntimeError(message)`` returns.

    Args:
        find_exception: takes the message; returns the original exception, or None to create a
            ``JaxRuntimeError``.
    """
    error_type = jax.errors.JaxRuntimeError
    make = error_type.__new__

    def new(cls: type[Exception], *args: Any, **kwargs: Any) -> BaseException:
        """Create a `JaxRuntimeError`, or return the exception that its message identifies.

        The new ``JaxRuntimeError.__new__``. `find_exception` finds the exception by the message.

        Args:
            cls: ``JaxRuntimeError``, or a subclass, whose objects are created as before.
            *args: the message. Python calls the class again with the exception that the first call
                returned; an exception as first argument is returned itself.
            **kwargs: passed on to the original constructor.
        """
        if cls is error_type and args:
            # Python calls the class a second time, with the exception, which is not an instance of
            # it.
            if isinstance(args[0], BaseException):
                return args[0]
            exception = find_exception(args[0]) if isinstance(args[0], str) else None
            if exception is not None:
                return exception
        return make(cls, *args, **kwargs)

    replace(error_type, "__new__", new)
