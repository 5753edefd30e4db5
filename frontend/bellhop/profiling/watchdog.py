"""Reports of running programs and their waits, on request or by a watchdog thread."""

import sys
import threading
from typing import Any

from bellhop.base.option_checks import check_number
from bellhop.base.public_function import public_function
from bellhop.base.source import definition_site, function_name
from bellhop.settings.config import read_environment_integer
from bellhop_runtime import Callback, under_way, waiting_taps
from bellhop_runtime._interrupts import HELPERS


@public_function
def waiting() -> str:
    """List the compiled functions that are running, and the calls for which they wait.

    Returns:
        text with lines for each thread: the compiled function, the callback or ``accelerate``
        function for which it waits, a compiled function that this calls, and so on, each with its
        duration; work of a device on a circuit, in the thread that runs it; and the number of
        waiting taps. An empty string if nothing runs and no tap waits.

    Example:
        >>> import bellhop
        >>> @bellhop.pure_callback
        ... def solve(x) -> float:
        ...     print(bellhop.debug.waiting())
        ...     return float(x)
        >>> energy = bellhop.qjit(lambda x: solve(x) + 1)
        >>> y = energy(1.0)
        MainThread:
          '<lambda>' (...), for ... s
            callback 'solve' (...), called from ..., for ... s
    """
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    lines = []
    for thread, steps in under_way():
        lines.append(f"{names.get(thread, 'a thread of the runtime')}:")
        for depth, (what, seconds) in enumerate(steps, start=1):
            lines.append(f"{'  ' * depth}{_describe_wait(what)}, for {seconds:.1f} s")
        if not isinstance(what, Callback | str):
            lines.append(f"{'  ' * (depth + 1)}{_OUTSIDE}")
    if taps := waiting_taps():
        lines.append(f"taps that wait or run: {taps}")
    return "\n".join(lines)


_OUTSIDE = "outside of Python: in XLA's code or a circuit, or waiting for room in the queue of taps"


def _describe_wait(what: Any) -> str:
    """Describe one running call in the output of ``waiting``.

    Args:
        what: the runtime's ``Callback``, described with the lines of its definition and call; the
            Python function of a compiled program, described as ``'f' (file:line)``; or a text,
            which is returned unchanged.
    """
    if isinstance(what, str):
        return what
    if not isinstance(what, Callback):
        return f"'{function_name(what)}' ({definition_site(what)})"
    defined = "" if what.definition == what.site else f" ({what.definition})"
    return f"{what.description}{defined}, called from {what.site}"


@public_function
def watchdog(seconds: float | None) -> None:
    """Print the output of ``waiting`` to stderr, once for each long call.

    A thread of Python checks the running calls. The environment variable ``BELLHOP_WATCHDOG=30``
    starts it when bellhop is imported. A callback that never releases the GIL blocks the thread;
    use ``faulthandler.dump_traceback_later`` for such callbacks.

    Args:
        seconds: duration after which a call is reported; None stops the watchdog. A new call
            replaces the previous limit.

    Raises:
        ValueError: if it is not positive.

    Example:
        >>> import bellhop
        >>> bellhop.debug.watchdog(30)
        >>> bellhop.debug.watchdog(0)
        Traceback (most recent call last):
            ...
        ValueError: debug.watchdog takes seconds above 0, or None, got 0.
        >>> bellhop.debug.watchdog(None)
    """
    global _stop_event
    if seconds is not None:
        check_number("debug.watchdog", "seconds", seconds)
    if seconds is not None and not seconds > 0:
        raise ValueError(f"debug.watchdog takes seconds above 0, or None, got {seconds}.")
    _stop_event.set()
    if seconds is not None:
        _stop_event = threading.Event()
        # Threads with this name do not delay KeyboardInterrupt.
        threading.Thread(
            target=_watch_calls,
            args=(seconds, _stop_event),
            name=f"{HELPERS}_watchdog",
            daemon=True,
        ).start()


_stop_event = threading.Event()


def watch_by_environment() -> None:
    """Start the watchdog if ``BELLHOP_WATCHDOG`` is set, when bellhop is imported.

    Raises:
        ValueError: if the variable is not a whole number of seconds. 0 does not start the watchdog.
    """
    if seconds := read_environment_integer("BELLHOP_WATCHDOG", "seconds"):
        watchdog(seconds)


def _watch_calls(limit: float, ended: threading.Event) -> None:
    """Print the output of ``waiting`` to stderr for each call longer than a limit.

    This is the loop of the watchdog's thread, which ends when ``ended`` is set. Each call is
    reported once.
    """
    reported: set[int] = set()
    # Intervals are short, so that a thread's next long call is recognised as new.
    while not ended.wait(min(limit / 4, 1.0)):
        late = {thread for thread, steps in under_way() if steps[0][1] > limit}
        if late - reported:
            print(
                f"bellhop: a call has taken longer than {limit:g} s\n{waiting()}",
                file=sys.stderr,
                flush=True,
            )
        reported = late
