"""`tap`: send values to Python without waiting."""

from collections.abc import Callable
from typing import Any

from bellhop.base.public_function import public_function
from bellhop.compiler.callback_target import must_run_in_python
from bellhop.observers.tap_type import Tap


class _ImmediateTap(Tap):
    """Callback type of ``bellhop.tap``, with advice in errors: it is not a decorator."""

    advice = " Pass the values, bellhop.tap(fn, *values): bellhop.tap is not a decorator."


TAP = _ImmediateTap("tap")


@public_function
def tap(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Send values to a Python function, and continue without waiting.

    When the program reaches this call, it copies the values into a queue, which takes no Python
    lock. Another thread calls ``fn`` for one tap after another, in the order in which they were
    issued by all programs.  ``barrier_wait`` waits for the taps; so does the end of the process.
    An exception in a tap does not stop later taps; ``barrier_wait`` raises it.

    Outside of programs, if an argument is not an array that JAX accepts, such as a tensor of
    PyTorch, ``fn`` is called at once, and its exceptions are raised.

    A tap runs even if its values are not used; under ``grad`` it gets primal values; if
    ``jax.checkpoint`` recomputes the values, it runs again.  Under ``vmap`` it is called once with
    the whole batch: mapped arguments have the batch axis first, all other arguments are unchanged.

    Args:
        fn: the function; it gets NumPy arrays, which it may keep.  Its result is dropped.
        args: positional arguments, pytrees of arrays of any shapes and dtypes.
        kwargs: keyword arguments, pytrees of arrays.

    Raises:
        TypeError: if ``fn`` is not callable or does not accept these arguments, or, when traced,
            an argument is not an array.
        DifferentiableCompileError: when traced, if an argument is a tangent and reverse mode
            transposes the program.

    Example:
        >>> import bellhop
        >>> seen = []
        >>> @bellhop.qjit
        ... def f(n):
        ...     @bellhop.for_loop(0, n, 1)
        ...     def loop(i, total):
        ...         bellhop.tap(seen.append, total)
        ...         return total + i
        ...     return loop(0)
        >>> f(4)
        Array(6, dtype=int64)
        >>> bellhop.barrier_wait(); [int(x) for x in seen]
        [0, 0, 1, 3]
    """
    if not callable(fn):
        raise TypeError(f"tap takes a function first, got {fn!r} of type {type(fn).__name__}.")
    if must_run_in_python(args, kwargs):
        fn(*args, **kwargs)
        return
    TAP.call(fn, args, kwargs)
