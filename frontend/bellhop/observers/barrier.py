"""barrier: wait for taps and asynchronous callbacks, which a thread of its own calls."""

import atexit
import sys
import traceback

import jax

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


def barrier_wait() -> None:
    """Wait until every tap and every asynchronous callback so far is over.

    Inside a tapped function it returns at once: what came before is over, and what came after
    waits for that function.  The end of the process waits too, but only for a minute, or for as
    many seconds as the environment variable ``BELLHOP_TAP_EXIT_SECONDS`` says.

    Raises:
        CallbackException: where some of them raised since the last time; its ``exceptions``
            are what they raised, and its ``__cause__`` is the last of these.
        KeyboardInterrupt: where Ctrl-C interrupts the waiting.

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
    # Programs that are dispatched asynchronously may still be on their way to their taps.
    jax.effects_barrier()
    wait_for_taps()
    if (failure := _take_failure()) is not None:
        raise failure


def tap_queue_limit(bytes: int | None = None) -> int:
    """Return how many bytes of taps may wait, and set it.

    A program that taps when there is no room waits until there is.  A single tap of more
    passes when it is alone.  The limit is raised for the time being where one tapped function
    runs for longer than a second, since it may be waiting for that program.

    Args:
        bytes: the new limit, if any; it is 256,000,000 where neither this nor the environment
            variable ``BELLHOP_TAP_QUEUE_BYTES`` says otherwise.

    Returns:
        the limit before.

    Raises:
        ValueError: where ``bytes`` is negative.

    Example:
        >>> import bellhop
        >>> bellhop.tap_queue_limit(1_000_000)
        256000000
        >>> bellhop.tap_queue_limit(256_000_000)
        1000000
    """
    if bytes is not None and bytes < 0:
        raise ValueError(
            f"the limit of the queue of taps is a number of bytes, got {bytes}. Give 0 or more."
        )
    return tap_limit() if bytes is None else set_tap_limit(bytes)


def _take_failure() -> CallbackException | None:
    """Return what is to be raised, if anything; it is forgotten then."""
    exceptions, dropped = take_tap_failures()
    if not exceptions:
        return None
    count = len(exceptions) + dropped
    what = "a tapped function raised" if count == 1 else f"tapped functions raised {count} times"
    last = "".join(traceback.format_exception_only(exceptions[-1])).strip()
    failure = CallbackException(f"{what}; {'this' if count == 1 else 'the last'} was {last}")
    failure.exceptions = tuple(exceptions)
    failure.__cause__ = exceptions[-1]
    return failure


@atexit.register
def _flush_at_exit() -> None:
    """Let little be lost: what waits is called, and what nobody waited for is reported.

    Programs without effects that still run then are not waited for: they fail where they would
    call Python, which can be called no more soon.
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
    if (failure := _take_failure()) is not None:
        print(f"bellhop: nobody waited for taps, and {failure}", file=sys.stderr)
        for exception in failure.exceptions:
            traceback.print_exception(exception, file=sys.stderr)
