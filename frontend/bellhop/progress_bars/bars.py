"""The bars of loops: what the runtime counts, shown with tqdm.

Programs count and show nothing.  While a loop goes on, a thread looks ten times a second; when a
``qjit`` function returns, what has ended in it is shown to its end at once.
"""

import atexit
import contextlib
import os
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

from tqdm.auto import tqdm

from bellhop.compiler.builtin_function import BuiltinFunction
from bellhop_runtime import (
    Bars,
    CallbackTable,
    end_bars,
    look_at_bars,
    stop_watching_bars,
)

_IS_NOTEBOOK = any(cls.__module__ == "tqdm.notebook" for cls in tqdm.__mro__)

# Seconds from one look to the next, and from one line to the next where the lines go to a file:
# each is there to stay.
_LOOK = 0.1
_LOOK_IN_FILE = 10.0


class LoopLabel(BuiltinFunction):
    """What the bars of one loop are called; the runtime calls it where nobody watches bars.

    Attributes:
        description: what stands before the bar.
        bars: those of the runs of the loop.
    """

    __name__ = "progress"

    # Loops are not the same for being called the same.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __init__(self, description: str) -> None:
        super().__init__(description)
        self.description = description
        self.bars = Bars()
        self._of_python: Any = None

    def __call__(self) -> None:
        """Watch all bars for as long as there are any."""
        # At the end of the process there are no more threads; then the last look shows all.
        with contextlib.suppress(RuntimeError):
            threading.Thread(target=_watch_bars, name="bellhop_progress", daemon=True).start()

    def advance_in_python(self, total: int) -> None:
        """Show that one more iteration of a loop of Python's is done."""
        if self._of_python is None:
            self._of_python = tqdm(desc=self.description or None, total=total)
        self._of_python.update()
        if self._of_python.n >= total:
            self._of_python.close()
            self._of_python = None


@dataclass(frozen=True)
class _BarState:
    """A bar as the runtime tells of it."""

    label: LoopLabel
    index: int
    began: int
    ended: int
    failed: bool
    count: int
    total: int
    seconds: float


class _BarLine:
    """A line that shows a bar."""

    def __init__(self, look: _BarState) -> None:
        self._is_live = _IS_NOTEBOOK or (sys.stderr is not None and sys.stderr.isatty())
        self._tqdm = tqdm(
            desc=look.label.description or None,
            total=_total_or_none(look.total),
            # In a terminal, a line below others is there for as long as its loop is.
            leave=True if _IS_NOTEBOOK else None,
            # In a file there is no line but the last.
            position=None if self._is_live else 0,
            # Lets nothing be shown before we say so.
            delay=0 if _IS_NOTEBOOK else 1e-9,
        )
        self._began = look.began
        self._shown = 0.0 if self._is_live else time.monotonic()

    def show(self, look: _BarState) -> None:
        """Show how far the bar is, unless the last time was just before."""
        self._update(look)
        interval = _LOOK if self._is_live else _LOOK_IN_FILE
        if time.monotonic() - self._shown >= 0.9 * interval:
            self._shown = time.monotonic()
            self._tqdm.refresh()

    def close(self, look: _BarState) -> None:
        """Show how far the loop got, and leave it at that."""
        self._update(look)
        self._tqdm.close()

    def _update(self, look: _BarState) -> None:
        bar = self._tqdm
        if bar.disable:
            return
        if look.began != self._began or bar.total != _total_or_none(look.total):
            self._began = look.began
            if _IS_NOTEBOOK:
                bar.reset(_total_or_none(look.total))
            bar.total = _total_or_none(look.total)
        bar.n = look.count
        # The line may be younger than the loop.
        bar.last_print_t = bar._time()
        bar.start_t = bar.last_print_t - look.seconds


def _total_or_none(total: int) -> int | None:
    return None if total < 0 else total


_lines: dict[int, _BarLine] = {}
_lock = threading.Lock()


def show_bars() -> None:
    """Show how far all loops are."""
    with _lock:
        events: list[tuple[int, bool, _BarState]] = []
        for look in (_BarState(*fields) for fields in look_at_bars()):
            events.append((look.began, False, look))
            if look.ended:
                events.append((look.ended, True, look))
        # In the order of what happened: a loop inside another stands below it, and one that
        # came after another has ended does not.
        for _, is_end, look in sorted(events, key=lambda event: event[:2]):
            # A stream that nobody reads any more is no reason to fail.
            with contextlib.suppress(OSError, ValueError):
                line = _lines.get(look.index)
                if line is None:
                    line = _lines[look.index] = _BarLine(look)
                if is_end:
                    del _lines[look.index]
                    line.close(look)
                else:
                    line.show(look)


def finish_bars(table: CallbackTable, *, is_last: bool) -> None:
    """Show the bars of programs that have returned to their ends.

    Args:
        table: that of the programs.
        is_last: whether no other program is under way.
    """
    if is_last:
        # A loop may have fewer iterations than its bar was told.
        end_bars(table)
    show_bars()


def _watch_bars() -> None:
    while not stop_watching_bars():
        time.sleep(_LOOK)
        show_bars()


def _reset_after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    _lines.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)

atexit.register(show_bars)
