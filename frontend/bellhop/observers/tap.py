"""tap: show values to Python without waiting for it."""

from collections.abc import Callable
from typing import Any

from bellhop.compiler.callback_target import must_run_in_python
from bellhop.observers.tap_type import Tap


class _ImmediateTap(Tap):
    """Taps of the user's, who names the function and the values at once."""

    advice = (
        " Give it the values, bellhop.tap(fn, *values): it makes the call, and is no decorator."
    )


TAP = _ImmediateTap("tap")


def tap(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Leave values to a Python function, and go on.

    The program copies the values into a queue when it gets here, which takes no lock of
    Python's; another thread calls ``fn`` for one tap after another, in the order in which they
    were issued, whatever program they came from.  ``barrier_wait`` waits for them; so does the
    end of the process.  An exception in one does not stop later ones and is raised by
    ``barrier_wait``.

    A tap runs whether or not anybody uses the values; under ``grad`` on primal values; where
    ``jax.checkpoint`` computes them again, again.  Under ``vmap`` it is called once with the
    whole batch: mapped arguments have the mapped axis first, others are as they are.

    Args:
        fn: the function; it gets NumPy arrays that it may keep.  What it returns is dropped.
        args: pytrees of arrays of any shapes and dtypes.
        kwargs: pytrees of arrays too.

    Raises:
        TypeError: where ``fn`` is no function, or does not take these arguments, or one is no
            array.
        DifferentiableCompileError: when traced, where an argument is a tangent and reverse mode
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
