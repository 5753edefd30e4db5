"""What compiled functions are waiting for, and a thread that says it of those that take long."""

import sys
import threading
from typing import Any

from bellhop.base.source import definition_site, function_name
from bellhop.settings.config import read_environment_integer
from bellhop_runtime import Callback, under_way, waiting_taps
from bellhop_runtime._interrupts import HELPERS


def waiting() -> str:
    """Tell which compiled functions are running, in which threads, and what each waits for.

    Returns:
        lines for each thread: its compiled function, the callback or region that this waits for,
        what that has called, and so on; what a device does of a circuit, in the thread that it
        runs in; nothing where nothing runs and no tap waits.

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
        lines.append(f"taps that wait to be called, or are: {taps}")
    return "\n".join(lines)


_OUTSIDE = "outside of Python: XLA's code, a circuit, or room for taps"


def _describe_wait(what: Any) -> str:
    if isinstance(what, str):
        return what
    if not isinstance(what, Callback):
        return f"'{function_name(what)}' ({definition_site(what)})"
    defined = "" if what.definition == what.site else f" ({what.definition})"
    return f"{what.description}{defined}, called from {what.site}"


def watchdog(seconds: float | None) -> None:
    """Print what ``waiting`` tells to stderr, once for each call that takes longer than that.

    The environment variable ``BELLHOP_WATCHDOG=30`` asks for the same when bellhop is imported.  It
    is a thread of Python's that prints: a callback that never lets go of Python's lock keeps it
    from that, and ``faulthandler.dump_traceback_later`` does not need the lock.

    Args:
        seconds: how long a call may take; None ends the watch.

    Raises:
        ValueError: where it is not above zero.

    Example:
        >>> import bellhop
        >>> bellhop.debug.watchdog(30)
        >>> bellhop.debug.watchdog(0)
        Traceback (most recent call last):
            ...
        ValueError: debug.watchdog takes seconds above 0, or None, got 0.
        >>> bellhop.debug.watchdog(None)
    """
    global _ended
    if seconds is not None and not seconds > 0:
        raise ValueError(f"debug.watchdog takes seconds above 0, or None, got {seconds}.")
    _ended.set()
    if seconds is not None:
        _ended = threading.Event()
        # Ctrl-C is not held up by a thread of this name.
        threading.Thread(
            target=_watch_calls, args=(seconds, _ended), name=f"{HELPERS}_watchdog", daemon=True
        ).start()


_ended = threading.Event()


def watch_by_environment() -> None:
    """Start the watchdog where ``BELLHOP_WATCHDOG`` says so.

    Raises:
        ValueError: where that is no number of seconds.
    """
    if seconds := read_environment_integer("BELLHOP_WATCHDOG", "seconds"):
        watchdog(seconds)


def _watch_calls(most: float, ended: threading.Event) -> None:
    told: set[int] = set()
    # Between two long calls of a thread there is a look at a short one.
    while not ended.wait(min(most / 4, 1.0)):
        long = {thread for thread, steps in under_way() if steps[0][1] > most}
        if long - told:
            print(
                f"bellhop: a call has taken longer than {most:g} s\n{waiting()}",
                file=sys.stderr,
                flush=True,
            )
        told = long
