"""Display of progress bars: the runtime counts, tqdm shows.

Programs only count. While a loop runs, a thread updates bars ten times a second; when a ``qjit``
function returns, finished bars are updated at once.
"""

import atexit
import contextlib
import os
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.core import ShapedArray
from tqdm.auto import tqdm

from bellhop.compiler.builtin_function import BuiltinFunction
from bellhop_runtime import (
    Bars,
    CallbackTable,
    end_bars,
    look_at_bars,
    stop_watching_bars,
)

# Types of the numbers of iterations that programs report.
_COUNTS = [[((), np.dtype(kind))] for kind in (np.int32, np.int64)]

_IS_NOTEBOOK = any(cls.__module__ == "tqdm.notebook" for cls in tqdm.__mro__)

# Seconds between updates, and between lines if output goes to a file, where lines remain.
_INTERVAL = 0.1
_FILE_INTERVAL = 10.0


class LoopLabel(BuiltinFunction):
    """The progress bars of one loop in a program, with their common label.

    The runtime counts the iterations of each execution of the loop in `bars`. It calls the object
    when a bar begins and no thread displays bars.

    Attributes:
        description: text before the bar; empty for no text.
        bars: the runtime's counters, one for each execution of the loop.
    """

    __name__ = "progress"
    kinds = ("progress",)

    # Labels are compared by identity: different loops may have equal descriptions.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __init__(self, description: str) -> None:
        super().__init__(description)
        self.description = description
        self.bars = Bars()
        self._python_bar: Any = None

    def accepts_types(
        self, arguments: Sequence[ShapedArray], results: Sequence[ShapedArray]
    ) -> bool:
        """Return whether a progress report has valid types.

        It is called when a program is loaded from a file. Valid are two arguments (iterations done,
        and in total) and one result, which are scalars of one type, int32 or int64.

        Args:
            arguments: types of the arguments.
            results: types of the results.
        """
        types = [(x.shape, x.dtype) for x in (*arguments, *results)]
        one = types[:1]
        return len(results) == 1 and types == one * 3 and one in _COUNTS

    def __call__(self) -> None:
        """Start a thread that displays all progress bars until none is left."""
        # At the end of the process no thread can start; the exit handler shows the final state.
        with contextlib.suppress(RuntimeError):
            threading.Thread(target=_watch_bars, name="bellhop_progress", daemon=True).start()

    def report_in_python(self, done: int, total: int) -> None:
        """Update the bar of a loop that Python runs, outside of compiled programs.

        The bar is created by the first report of a loop, and closed at its end.

        Args:
            done: number of iterations since the last report; negative at the beginning of the loop,
                0 at its end.
            total: number of all iterations; negative if unknown. The bar also ends when it has
                counted them.
        """
        if self._python_bar is None:
            if done == 0:
                return
            self._python_bar = tqdm(desc=self.description or None, total=_total_or_none(total))
        if done > 0:
            self._python_bar.update(done)
        if done == 0 or 0 <= total <= self._python_bar.n:
            self._python_bar.close()
            self._python_bar = None


@dataclass(frozen=True)
class _BarState:
    """State of one progress bar at a moment, as the runtime reports it.

    Attributes:
        label: label of the loop.
        index: number of the bar; displayed bars have different numbers.
        began: sequence number of its start; starts and ends of all bars are numbered together.
        ended: sequence number of its end; 0 if it has not ended.
        failed: whether the loop failed.
        count: number of finished iterations.
        total: number of iterations; negative if unknown.
        seconds: seconds since the start.
    """

    label: LoopLabel
    index: int
    began: int
    ended: int
    failed: bool
    count: int
    total: int
    seconds: float


class _BarLine:
    """The line, or notebook widget, that displays one progress bar with tqdm.

    It exists until the loop has ended.

    Args:
        state: first state of the bar.
    """

    def __init__(self, state: _BarState) -> None:
        self._is_live = _IS_NOTEBOOK or (sys.stderr is not None and sys.stderr.isatty())
        self._tqdm = tqdm(
            desc=state.label.description or None,
            total=_total_or_none(state.total),
            # In a terminal, nested lines disappear with their loop.
            leave=True if _IS_NOTEBOOK else None,
            # Lines in a file have position 0.
            position=None if self._is_live else 0,
            # Delay tqdm's own output until the first update.
            delay=0 if _IS_NOTEBOOK else 1e-9,
        )
        self._began = state.began
        self._shown = 0.0 if self._is_live else time.monotonic()

    def show(self, state: _BarState) -> None:
        """Copy a state of the bar to tqdm, and redraw it unless it was redrawn recently.

        Recent means within 0.09 seconds in terminals and notebooks, and within 9 seconds if the
        output goes to a file.
        """
        self._update(state)
        interval = _INTERVAL if self._is_live else _FILE_INTERVAL
        if time.monotonic() - self._shown >= 0.9 * interval:
            self._shown = time.monotonic()
            self._tqdm.refresh()

    def close(self, state: _BarState) -> None:
        """Draw the final state of the bar, and close tqdm's bar."""
        self._update(state)
        self._tqdm.close()

    def _update(self, state: _BarState) -> None:
        """Copy a state to tqdm, without redrawing the bar.

        If the state belongs to a later execution of the loop, the bar starts again.
        """
        bar = self._tqdm
        if bar.disable:
            return
        if state.began != self._began or bar.total != _total_or_none(state.total):
            self._began = state.began
            if _IS_NOTEBOOK:
                bar.reset(_total_or_none(state.total))
            bar.total = _total_or_none(state.total)
        bar.n = state.count
        # The loop may have started before the line was created.
        bar.last_print_t = bar._time()
        bar.start_t = bar.last_print_t - state.seconds


def _total_or_none(total: int) -> int | None:
    """Convert the runtime's number of iterations, negative if unknown, to tqdm's."""
    return None if total < 0 else total


_lines: dict[int, _BarLine] = {}
_lock = threading.Lock()


def show_bars() -> None:
    """Read the state of all progress bars from the runtime, and redraw their lines.

    New bars get a line; the lines of loops that have ended are closed. It is also called when the
    process exits.
    """
    with _lock:
        events: list[tuple[int, bool, _BarState]] = []
        for state in (_BarState(*fields) for fields in look_at_bars()):
            events.append((state.began, False, state))
            if state.ended:
                events.append((state.ended, True, state))
        # Process events in order: a nested loop is shown below its outer loop, and a later loop is
        # not.
        for _, is_end, state in sorted(events, key=lambda event: event[:2]):
            # Ignore closed output streams.
            with contextlib.suppress(OSError, ValueError):
                line = _lines.get(state.index)
                if line is None:
                    line = _lines[state.index] = _BarLine(state)
                if is_end:
                    del _lines[state.index]
                    line.close(state)
                else:
                    line.show(state)


def finish_bars(table: CallbackTable, *, is_last: bool) -> None:
    """Display the final state of the progress bars of programs that have returned.

    Args:
        table: callback table of the programs, which contains the labels of their loops.
        is_last: whether no other program is running, so that bars which have not reached their
            total have ended too.
    """
    if is_last:
        # A loop may end before its total.
        end_bars(table)
    show_bars()


def _watch_bars() -> None:
    """Redraw the bars ten times a second until none is left: the display thread."""
    while not stop_watching_bars():
        time.sleep(_INTERVAL)
        show_bars()


def _reset_after_fork() -> None:
    """Forget the displayed lines in a forked child process, and make a new lock."""
    global _lock
    _lock = threading.Lock()
    _lines.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)

atexit.register(show_bars)
