"""`barrier_wait`: wait for taps and asynchronous callbacks, which run on another thread."""

import atexit
import sys
import traceback

import jax

from bellhop.base.option_checks import check_number
from bellhop.base.public_function import public_function
from bellhop.errors import CallbackException
from bellhop.settings.config import tap_exit_seconds
from bellhop_runtime import (
    close_calls,
    close_taps,
    set_tap_limit,
    take_tap_failures,
    tap_limit,
    wait_for_taps,
)


@public_function
def barrier_wait() -> None:
    """Wait until all earlier taps and asynchronous callbacks have finished.

    Inside of a tapped function it returns at once: earlier taps have finished, and later taps wait
    for that function.  The end of the process waits too, for at most a minute, or the number of
    seconds in the environment variable ``BELLHOP_TAP_EXIT_SECONDS``.

    Raises:
        CallbackException: if some of them raised since the last call of ``barrier_wait``; its
            ``exceptions`` are the exceptions, and its ``__cause__`` is the last of them.
        KeyboardInterrupt: if Ctrl-C interrupts the wait.

    Example:
        >>> import bellhop
        >>> seen = []
        >>> @bellhop.qjit
        ... def f(x):
        ...     bellhop.tap(seen.append, x)
        ...     return 2 * x
        >>> y = f(1.5); bellhop.barrier_wait(); seen
        [array(1.5)]
    """
    # Programs that are dispatched asynchronously may not have reached their taps yet.
    jax.effects_barrier()
    wait_for_taps()
    if (failure := _take_failure()) is not None:
        raise failure


@public_function
def tap_queue_limit(bytes: int | None = None) -> int:
    """Return the maximal size of the queue of taps in bytes, and optionally set it.

    A program that taps while the queue is full waits until there is space.  A single tap larger
    than the limit is accepted when the queue is empty.  The limit is raised temporarily while a
    tapped function runs for longer than a second, since the function may wait for the tapping
    program.

    Args:
        bytes: the new limit; None keeps the limit.  The initial limit is 256,000,000, or the value
            of the environment variable ``BELLHOP_TAP_QUEUE_BYTES``.

    Returns:
        the previous limit.

    Raises:
        ValueError: if ``bytes`` is negative.

    Example:
        >>> import bellhop
        >>> bellhop.tap_queue_limit(1_000_000)
        256000000
        >>> bellhop.tap_queue_limit(256_000_000)
        1000000
    """
    if bytes is not None:
        check_number("tap_queue_limit", "bytes", bytes)
    if bytes is not None and bytes < 0:
        raise ValueError(
            f"tap_queue_limit: bytes is {bytes}, expected at least 0. Pass the limit in bytes."
        )
    return tap_limit() if bytes is None else set_tap_limit(bytes)


def _take_failure() -> CallbackException | None:
    """Collect the exceptions of taps and asynchronous callbacks into one `CallbackException`.

    Returns:
        the error, which is not raised; None if nothing has raised since the last call. The runtime
        forgets the collected exceptions.
    """
    exceptions, dropped = take_tap_failures()
    if not exceptions:
        return None
    count = len(exceptions) + dropped
    summary = "a tapped function raised" if count == 1 else f"tapped functions raised {count} times"
    last_exception = "".join(traceback.format_exception_only(exceptions[-1])).strip()
    failure = CallbackException(
        f"{summary}; {'this' if count == 1 else 'the last'} was {last_exception}"
    )
    failure.exceptions = tuple(exceptions)
    failure.__cause__ = exceptions[-1]
    return failure


@atexit.register
def _flush_at_exit() -> None:
    """Wait for taps and report their exceptions at the end of the process.

    It waits for JAX's effects, and then for taps, for at most ``BELLHOP_TAP_EXIT_SECONDS``.
    Programs without effects that are still running are not awaited: they fail when they call
    Python, which is shutting down.
    """
    try:
        jax.effects_barrier()
    finally:
        try:
            close_taps(tap_exit_seconds())
        finally:
            _report_failures()
            close_calls()


def _report_failures() -> None:
    """Print exceptions of asynchronous callbacks that ``barrier_wait`` has not raised.

    Called at the end of the process; prints to stderr. Nothing is printed if there are none.
    """
    if (failure := _take_failure()) is not None:
        print(
            f"bellhop: {str(failure).rstrip('.')}. The process ends without a call of "
            "bellhop.barrier_wait, which would have raised the exception. Correct the tapped "
            "function:",
            file=sys.stderr,
        )
        for exception in failure.exceptions:
            traceback.print_exception(exception, file=sys.stderr)
