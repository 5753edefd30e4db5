"""Run the processes of a step, each with a time limit that holds whatever hangs.

Each process leads a session, and so a process group, of its own.  The group is killed with SIGKILL
at the limit, and when its leader has ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.gpu_report.step_records import HANGS, VARIABLE, read_records

#: Seconds below which a process is not started: it could not even import JAX.
SHORTEST = 3.0
_TAIL = 6000
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


@dataclass(frozen=True)
class Child:
    """A process of a step.

    Attributes:
        label: what it tries.
        command: its arguments, the interpreter included.
        seconds: its time limit.
        environment: variables that it has besides those of all children.
        keeps_output: whether the report shows its output even if it succeeds.
        skipped: why it is not run, or empty.
    """

    label: str
    command: tuple[str, ...]
    seconds: float
    environment: Mapping[str, str] = field(default_factory=dict)
    keeps_output: bool = False
    skipped: str = ""


@dataclass
class ChildResult:
    """What a process did.

    Attributes:
        label: of the child.
        state: "waiting", "running", "finished", "failed", "stopped" or "skipped".
        detail: why it failed, was stopped or was skipped.
        seconds: how long it ran.
        records: the results that it recorded, also if it was killed.
        output: the end of what it printed, where that says more than the records.
    """

    label: str
    state: str = "waiting"
    detail: str = ""
    seconds: float = 0.0
    records: list[dict[str, Any]] = field(default_factory=list)
    output: str = ""


class RunningChild:
    """A process that was started, its limit and its files."""

    def __init__(
        self, child: Child, result: ChildResult, limit: float, folder: Path, number: int
    ) -> None:
        self.child, self.result, self.limit = child, result, limit
        self._records = folder / f"{number}.records"
        self.output = folder / f"{number}.output"
        self._begin = time.monotonic()
        result.state = "running"
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(
                child.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_parent,
                env={
                    **os.environ,
                    **child.environment,
                    VARIABLE: str(self._records),
                    HANGS: str(max(1.0, limit - 2)),
                },
            )

    def has_ended(self) -> bool:
        """Update the result; kill the process at its limit."""
        status = self._process.poll()
        self.result.seconds = round(time.monotonic() - self._begin, 2)
        self.result.records = read_records(self._records)
        if status is None and self.result.seconds < self.limit:
            return False
        if status is None:
            self.stop(f"stopped after {self.limit:.0f} s")
            return True
        self._kill_group()
        self.result.state = "finished" if status == 0 else "failed"
        if status:
            self.result.detail = _describe_status(status)
        if status or self.child.keeps_output:
            self.result.output = self._read_tail()
        return True

    def stop(self, reason: str) -> None:
        """Kill the process group and say why in the result."""
        self._kill_group()
        # A process that waits for a driver may outlive SIGKILL for a while.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1)
        self.result.state, self.result.detail = "stopped", reason
        self.result.records = read_records(self._records)
        self.result.output = self._read_tail()

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _read_tail(self) -> str:
        with self.output.open("rb") as output:
            output.seek(max(0, self.output.stat().st_size - _TAIL))
            return output.read().decode(errors="replace")


def run_children(
    children: Sequence[Child],
    results: Sequence[ChildResult],
    *,
    at_once: int,
    deadline: float,
    folder: Path,
    on_change: Callable[[], None],
) -> None:
    """Run processes, in order, and fill in their results.

    Args:
        children: of a step.
        results: of the same length; they are updated in place while the processes run.
        at_once: how many processes run at the same time.
        deadline: of ``time.monotonic()``, at which all that is left is stopped or skipped.
        folder: where the processes' records and outputs are; it exists, and is empty.
        on_change: called about every second, and when a process ends.
    """
    waiting = deque(enumerate(zip(children, results, strict=True)))
    running: list[RunningChild] = []
    told = time.monotonic()
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                number, (child, result) = waiting.popleft()
                limit = min(child.seconds, deadline - time.monotonic())
                if child.skipped or limit < SHORTEST:
                    result.state, result.detail = "skipped", child.skipped or "no time was left"
                else:
                    running.append(RunningChild(child, result, limit, folder, number))
            ended = [each for each in running if each.has_ended()]
            running = [each for each in running if each not in ended]
            if ended or time.monotonic() - told > 1:
                on_change()
                told = time.monotonic()
            elif running:
                time.sleep(0.05)
    finally:
        for each in running:
            each.stop("stopped with the report")


def _describe_status(status: int) -> str:
    if status > 0:
        return f"exit status {status}"
    return f"killed by {signal.Signals(-status).name}"


def _die_with_parent() -> None:
    """Have the kernel kill this process when the report's process is killed."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
