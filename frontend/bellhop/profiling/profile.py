"""profile: every crossing of the border of programs, counted and timed."""

import io
import os
import shutil
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

import bellhop_runtime
from bellhop.compiler.compile_timing import listen_to_xla, observers
from bellhop.profiling.profile_entry import Row
from bellhop_runtime import profile_thread, wait_for_taps

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The structure HostCall of runtime/profile/profile.h.
_NAMES_64 = "begin", "end", "busy", "waited", "bytes_out", "bytes_in"
_NAMES_32 = "row", "thread", "failed", "calls"
_CROSSING = np.dtype(
    [(name, np.int64) for name in _NAMES_64] + [(name, np.int32) for name in _NAMES_32]
)


class Profile:
    """What ``profile`` records.

    Printed or shown, it is a table: a row for each place, that with the longest total first.

    Attributes:
        rows: the same, as ``Row`` objects.

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
            raise RuntimeError("a profile is used once. Make another: bellhop.profile().")
        self._state = "open"
        listen_to_xla()
        self._threads[profile_thread()] = threading.current_thread().name
        observers.append(self)
        self._recorder.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            # What was tapped inside belongs to it, unless it waits for what comes after.
            wait_for_taps(is_patient=False)
        finally:
            self._recorder.stop()
            observers.remove(self)
            self._state = "closed"

    @property
    def rows(self) -> list[Row]:
        """All rows, that with the longest total first."""
        crossings = self._crossings()
        rows = []
        for index, row in enumerate(self._recorder.rows()):
            kind, name, site, definition, calls, failed, busy, waited, out, in_ = row
            of_row = crossings[crossings["row"] == index]
            kept = of_row["busy"] / of_row["calls"]
            median = float(np.median(kept)) / 1e9 if kept.size else float("nan")
            seconds = busy / 1e9, median, waited / 1e9
            rows.append(Row(kind, name, definition, site, calls, failed, *seconds, out, in_))
        return sorted(rows, key=lambda row: -row.total)

    def __str__(self) -> str:
        from rich.console import Console

        # Where nobody looks on, lines are as long as it takes; figures are never cut.
        width = max(80, shutil.get_terminal_size((160, 24)).columns)
        written = io.StringIO()
        # In a notebook, rich shows what it is to write.
        Console(width=width, file=written, force_jupyter=False).print(self)
        return written.getvalue().rstrip("\n")

    __repr__ = __str__

    def _repr_mimebundle_(self, include: Any, exclude: Any, **options: Any) -> Any:
        """Show the table in a notebook."""
        return self.__rich__()._repr_mimebundle_(include, exclude, **options)

    def __rich__(self) -> Any:
        from bellhop.profiling.table import make_table

        return make_table(self.rows)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot when each crossing was: a line for each row, waits for the GIL paler.

        Args:
            ax: where to; new axes without it.

        Returns:
            the axes.

        Raises:
            ImportError: where there is no matplotlib.

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

        return plot_timeline(self._recorder.rows(), self._crossings(), ax)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all crossings as a trace, for `Perfetto <https://ui.perfetto.dev>`_ or speedscope.

        Args:
            path: of the file, in Chrome's trace event format, JSON.

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

        save_trace(path, self._recorder.rows(), self._crossings(), self._threads)

    def _crossings(self) -> Any:
        return np.frombuffer(self._recorder.crossings(), _CROSSING)


def profile(*, limit: int = 1_000_000) -> Profile:
    """Count and time every crossing of the border of programs, inside a ``with`` block.

    Callbacks, taps, regions on other devices, circuits, runs of ``qjit`` functions and
    compilation, of all threads, in ``qjit``, in ``jax.jit`` and outside; programs that are compiled
    already too.  Crossings that begin and end inside count.  Profiles may stand in one another.
    What runs inside the program, such as circuits on ``default.mixed``, does not cross, and
    has rows that say so.

    Args:
        limit: how many crossings are kept one by one, each in 64 bytes, for medians,
            ``plot`` and ``save``; later ones are counted in the totals alone.

    Returns:
        a context manager, whose value is the ``Profile``.

    Raises:
        ValueError: where ``limit`` is negative.

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
    if limit < 0:
        raise ValueError(f"profile: limit is a number of crossings, got {limit}.")
    return Profile(limit)
