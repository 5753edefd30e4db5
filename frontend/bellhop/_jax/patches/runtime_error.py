"""A failed run of a plain ``jax.jit`` raises the exception that its callback raised.

For ``jax.jit(lambda x: bellhop.pure_callback(f, float)(x))(1.0)``, where ``f`` raises
``KeyError("no")``::

    without this patch    JaxRuntimeError: INTERNAL: KeyError: 'no' (raised in callback 'f', ...
    with it               KeyError: 'no'

Replaced: ``jax.errors.JaxRuntimeError.__new__``, which XLA's C++ calls with the text of the error.
Versions: 0.10 to 0.12.
Upstream: FFI handlers whose errors carry a Python object.
Installed: when one of our calls is first lowered in a plain ``jax.jit``.
Test: ``test_exceptions_in_plain_jit.py``.
"""

from collections.abc import Callable
from typing import Any

import jax

from bellhop._patching import patch


@patch("jax.errors.JaxRuntimeError.__new__", "a plain jax.jit raises what a callback raised")
def patch_runtime_error(exception_behind: Callable[[str], BaseException | None]) -> None:
    """Let ``JaxRuntimeError(text)`` return the exception of the callback that failed.

    XLA's C++ raises what ``JaxRuntimeError(text)`` returns.

    Args:
        exception_behind: takes the text; returns the exception, or None for the text of another
            error, of which a ``JaxRuntimeError`` is made as before.
    """
    error_type = jax.errors.JaxRuntimeError
    make = error_type.__new__

    def new(cls: type[Exception], *args: Any, **kwargs: Any) -> BaseException:
        if cls is error_type and args:
            # Python calls the class again with the exception, which is no instance of it.
            if isinstance(args[0], BaseException):
                return args[0]
            exception = exception_behind(args[0]) if isinstance(args[0], str) else None
            if exception is not None:
                return exception
        return make(cls, *args, **kwargs)

    error_type.__new__ = new
