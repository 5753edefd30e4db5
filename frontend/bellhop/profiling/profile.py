"""`profile`: count and time host calls."""

import io
import os
import shutil
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

import bellhop_runtime
from bellhop.base.option_checks import check_number
from bellhop.base.public_function import public_function
from bellhop.compiler.compile_timing import listen_to_xla, observers
from bellhop.profiling.profile_entry import ProfileRow
from bellhop_runtime import profile_thread, wait_for_taps

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The structure HostCall of runtime/profile/profile.h.
_NAMES_64 = "begin", "end", "busy", "waited", "bytes_out", "bytes_in"
_NAMES_32 = "row", "thread", "failed", "calls"
_HOST_CALL = np.dtype(
    [(name, np.int64) for name in _NAMES_64] + [(name, np.int32) for name in _NAMES_32]
)


class Profile:
    """Result of ``profile``: counts and times of host calls, by call site.

    Host calls are callbacks, circuits, calls of compiled functions etc.; see ``profile``, which
    makes this object. It records while its ``with`` block runs, which is possible once. Printing
    shows a table, sorted by total time.

    Args:
        limit: number of calls that are stored individually.

    Attributes:
        rows: one ``ProfileRow`` for each call site.

    Example:
        >>> import bellhop
        >>> f = bellhop.qjit(lambda x: x + 1)
        >>> y = f(1.0)
        >>> with bellhop.profile() as p:
        ...     y = f(2.0)
        >>> str(p).split()[:3]
        ['kind', 'function', 'calls']
    """

    def __init__(self, limit: int) -> None:
        self._recorder = bellhop_runtime.Profile(limit)
        self._threads: dict[int, str] = {}
        self._state = "new"

    def __enter__(self) -> "Profile":
        if self._state != "new":
            raise RuntimeError("a profile can be used once only. Make another: bellhop.profile().")
        self._state = "open"
        listen_to_xla()
        self._threads[profile_thread()] = threading.current_thread().name
        observers.append(self)
        self._recorder.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            # Count the taps of this block, unless they wait for later taps.
            wait_for_taps(is_patient=False)
        finally:
            self._recorder.stop()
            observers.remove(self)
            self._state = "closed"

    @property
    def rows(self) -> list[ProfileRow]:
        """One row for each call site, sorted by decreasing total time."""
        host_calls = self._host_calls()
        rows = []
        for index, row in enumerate(self._recorder.rows()):
            kind, name, site, definition, calls, failed, busy, waited, out, in_ = row
            row_calls = host_calls[host_calls["row"] == index]
            seconds_per_call = row_calls["busy"] / row_calls["calls"]
            median = (
                float(np.median(seconds_per_call)) / 1e9 if seconds_per_call.size else float("nan")
            )
            seconds = busy / 1e9, median, waited / 1e9
            rows.append(ProfileRow(kind, name, definition, site, calls, failed, *seconds, out, in_))
        return sorted(rows, key=lambda row: -row.total)

    def __str__(self) -> str:
        from rich.console import Console

        # Without a terminal, lines are wide, so that numbers are not cut.
        width = max(80, shutil.get_terminal_size((160, 24)).columns)
        written = io.StringIO()
        # In a notebook, rich would display its output.
        Console(width=width, file=written, force_jupyter=False).print(self)
        return written.getvalue().rstrip("\n")

    __repr__ = __str__

    def _repr_mimebundle_(self, include: Any, exclude: Any, **options: Any) -> Any:
        """Return the table for a notebook, by MIME type; IPython calls it."""
        return self.__rich__()._repr_mimebundle_(include, exclude, **options)

    def __rich__(self) -> Any:
        from bellhop.profiling.table import make_table

        return make_table(self.rows)

    @public_function
    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot a timeline of the host calls, with a line for each row of the profile.

        Waits for the GIL are paler.

        Args:
            ax: axes to draw into; None creates new axes.

        Returns:
            the axes.

        Raises:
            ImportError: if matplotlib is not installed.

        Example:
            >>> import bellhop, matplotlib
            >>> matplotlib.use("Agg")
            >>> f = bellhop.qjit(lambda x: x + 1)
            >>> y = f(1.0)
            >>> with bellhop.profile() as p:
            ...     y = f(2.0)
            >>> p.plot().get_yticklabels()[0].get_text()
            '<lambda> (program)'
        """
        from bellhop.profiling.timeline import plot_timeline

        return plot_timeline(self._recorder.rows(), self._host_calls(), ax)

    @public_function
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the host calls as a trace file, in Chrome's trace event format.

        `Perfetto <https://ui.perfetto.dev>`_ and speedscope show it.

        Args:
            path: path of the file, in Chrome's trace event format (JSON).

        Example:
            >>> import bellhop, json, tempfile
            >>> f = bellhop.qjit(lambda x: x + 1)
            >>> y = f(1.0)
            >>> with bellhop.profile() as p:
            ...     y = f(2.0)
            >>> with tempfile.NamedTemporaryFile("r") as file:
            ...     p.save(file.name)
            ...     [event["name"] for event in json.load(file)["traceEvents"]]
            ['thread_name', '<lambda>']
        """
        from bellhop.profiling.trace_events import save_trace

        save_trace(path, self._recorder.rows(), self._host_calls(), self._threads)

    def _host_calls(self) -> Any:
        """Return the stored host calls as a structured array, with one element for each.

        Its fields include times in nanoseconds, the index of the profile's row, and bytes.
        """
        return np.frombuffer(self._recorder.host_calls(), _HOST_CALL)


@public_function(usage="Write `with profile() as p:` around calls of compiled functions.")
def profile(*, limit: int = 1_000_000) -> Profile:
    """Count and time all host calls inside a ``with`` block.

    Host calls are callbacks, taps, regions on other devices, circuits, calls of ``qjit`` functions,
    and compilation, of all threads, in ``qjit``, in ``jax.jit`` and outside, including programs
    compiled before. Calls that begin and end inside of the block count. Profiles can be nested.
    Work inside of a program, such as circuits on ``default.mixed``, is not a host call, and has
    rows that say so.

    Args:
        limit: number of calls that are stored individually, in 64 bytes each, for medians, ``plot``
            and ``save``; further calls only count in totals.

    Returns:
        a context manager, whose value is the ``Profile``.

    Raises:
        ValueError: if ``limit`` is negative.

    Example:
        >>> import bellhop
        >>> @bellhop.pure_callback
        ... def double(x) -> float:
        ...     return 2.0 * x
        >>> f = bellhop.qjit(lambda x: double(x) + double(x + 1))
        >>> with bellhop.profile() as p:
        ...     y = f(1.0)
        >>> [(row.name, row.calls, row.bytes_out) for row in p.rows if row.kind == "pure_callback"]
        [('double', 2, 16)]
    """
    check_number("profile", "limit", limit)
    if limit < 0:
        raise ValueError(f"profile: limit must be at least 0, got {limit}.")
    return Profile(limit)
