"""Durations of the stages of compilation."""

import contextlib
import contextvars
import dataclasses
import datetime
import functools
import json
import platform
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import jax

from bellhop_mlir.pipelines import PASSES
from bellhop_runtime import profile_clock, record_span

# Name of the stage that executes the program.
RUN = "run"

# JAX's monitoring event for a module compiled by XLA.
_XLA_EVENT = "/jax/core/compile/backend_compile_duration"


@dataclass(frozen=True)
class Timing:
    """Duration of a stage of a compilation, or of an execution, in a `Recording`.

    Attributes:
        name: name of the stage, such as ``"tracing"``, or ``"run"`` for an execution.
        wall: wall-clock seconds.
        cpu: processor seconds of all threads of the process; None for XLA's compilation, of which
            JAX reports the wall-clock time only.
        lines: lines of the module's text after the stage; None for a stage without a module.
    """

    name: str
    wall: float
    cpu: float | None = None
    lines: int | None = None


@dataclass
class Recording:
    """The timings and notes of the compilations in a ``with record_stages()`` block.

    Attributes:
        timings: the timings, in the order in which the stages ended.
        notes: messages about the compiled programs from `add_note`, such as the backend of a
            circuit.
    """

    timings: list[Timing] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def summarize(self) -> "Recording":
        """Return a recording in which consecutive passes are one stage, ``"passes"``.

        Its times are the sums of the passes' times, and its lines are the lines after the last
        pass. This recording stays as it is; the new recording has no notes.
        """
        summary = Recording()
        for timing in self.timings:
            last = summary.timings[-1] if summary.timings else None
            if timing.name not in PASSES:
                summary.timings.append(timing)
            elif last is not None and last.name == "passes":
                cpu = (last.cpu or 0) + (timing.cpu or 0)
                wall = last.wall + timing.wall
                summary.timings[-1] = Timing("passes", wall, cpu, timing.lines)
            else:
                summary.timings.append(dataclasses.replace(timing, name="passes"))
        return summary

    def to_yaml(self, name: str) -> str:
        """Format the timings as YAML: times in milliseconds, program size in lines.

        The format is Catalyst's: the current time is the only key, with ``name``, ``system``
        (``os``, ``arch``, ``python``) and ``results`` below it. ``results`` is a list with one
        mapping for each stage, from its name to ``walltime``, ``cputime`` and ``programsize``,
        without values that are not known.

        Args:
            name: name of the program.
        """
        lines = [f"{datetime.datetime.now()}:", f"  name: {json.dumps(name)}", "  system:"]
        system = {
            "os": platform.platform(),
            "arch": platform.machine(),
            "python": platform.python_version(),
        }
        lines += [f"    {key}: {json.dumps(value)}" for key, value in system.items()]
        lines += ["  results:" if self.timings else "  results: []"]
        for m in self.timings:
            values = {"walltime": m.wall * 1e3, "cputime": m.cpu and m.cpu * 1e3}
            lines += [f"    - {m.name}:"]
            lines += [f"        {key}: {value:.6f}" for key, value in values.items() if value]
            lines += [f"        programsize: {m.lines}"] if m.lines is not None else []
        return "\n".join(lines) + "\n"

    def to_table(self) -> str:
        """Format the timings as a text table with a header and one line for each stage.

        The columns are the stage's name, wall-clock and processor time in milliseconds, and the
        lines of the module; unknown values are blank. Lines are joined by newlines.
        """
        width = max((len(m.name) for m in self.timings), default=5)
        rows = [f"{'stage':{width}}  {'wall':>10}  {'CPU':>10}  {'lines':>6}"]
        rows += [
            f"{m.name:{width}}  {m.wall * 1e3:7.3f} ms  "
            + (f"{m.cpu * 1e3:7.3f} ms  " if m.cpu is not None else f"{'':>12}")
            + (f"{m.lines:6}" if m.lines is not None else "")
            for m in self.timings
        ]
        return "\n".join(row.rstrip() for row in rows)


# Open recordings and profiles of all contexts. Each call checks if there are any.
observers: list[object] = []

# Open recordings of this context.
recordings: contextvars.ContextVar[tuple[Recording, ...]] = contextvars.ContextVar(
    "bellhop_recordings", default=()
)


def add_note(text: str) -> None:
    """Add a message to this context's active recordings, unless they have it already."""
    for recording in recordings.get():
        if text not in recording.notes:
            recording.notes.append(text)


@contextlib.contextmanager
def record_stages() -> Iterator[Recording]:
    """Record the durations of compilation stages, and of executions, in a ``with`` block.

    Only code in this context (``contextvars``) is recorded; enclosing blocks record it as well.

    Yields:
        the recording, to which stages are appended while the block runs.
    """
    listen_to_xla()
    recording = Recording()
    token = recordings.set((*recordings.get(), recording))
    observers.append(recording)
    try:
        yield recording
    finally:
        observers.remove(recording)
        recordings.reset(token)


class Stopwatch:
    """Measures consecutive stages of one compilation, for recordings and profiles.

    The first stage begins when the object is created.
    """

    def __init__(self) -> None:
        self._start = time.perf_counter(), time.process_time()

    def lap(self, name: str, module: Any = None) -> None:
        """Record the time since the previous stage, if a recording or profile is active.

        Args:
            name: name of the stage that ends.
            module: MLIR module after the stage, whose lines are counted; None without a module.
        """
        if not observers:
            return
        now = time.perf_counter(), time.process_time()
        is_recorded = bool(recordings.get()) and module is not None
        lines = str(module).count("\n") if is_recorded else None
        _record_timing(Timing(name, now[0] - self._start[0], now[1] - self._start[1], lines))
        self._start = time.perf_counter(), time.process_time()


def _record_timing(timing: Timing) -> None:
    """Add the timing of a stage that has just ended to active recordings and profiles.

    The recordings of this context (`record_stages`) receive every stage. Profiles receive the
    stages of a compilation only: they record executions in another way.
    """
    if timing.name != RUN:
        name = "passes" if timing.name in PASSES else timing.name
        record_span("compilation", name, "", profile_clock() - int(timing.wall * 1e9), False)
    for recording in recordings.get():
        recording.timings.append(timing)


@functools.cache
def listen_to_xla() -> None:
    """Register a listener that records how long each compilation by XLA takes.

    Repeated calls do nothing: the listener stays registered until the process ends.
    """

    def listen(event: str, duration: float, **_: object) -> None:
        if event == _XLA_EVENT:
            _record_timing(Timing("XLA", duration))

    jax.monitoring.register_event_duration_secs_listener(listen)
