"""The process that builds, compiles and times the programs of one framework.

It reads one JSON command a line and answers each with one JSON line.  Programs
may print, and compilers may too, so the answers travel on a duplicate of
standard output, and descriptor 1 itself leads to /dev/null.

A command is {"do": NAME, ...}; the answer is {"ok": VALUE} or {"error": TEXT}.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from importlib import metadata
from textwrap import shorten
from typing import Any

import numpy as np

from benchmarks.case import SIMULATORS, Program
from benchmarks.cases import CASES

DISTRIBUTIONS = (
    "pennylane-bellhop",
    "pennylane-catalyst",
    "pennylane",
    "jax",
    "jaxlib",
    "numpy",
    *SIMULATORS.values(),
)


def _versions() -> dict[str, str]:
    versions = {"python": ".".join(map(str, sys.version_info[:3]))}
    for distribution in DISTRIBUTIONS:
        try:
            versions[distribution] = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _seconds(run: Callable[[], Any], calls: int) -> float:
    """Time `calls` calls, with no garbage collection among them."""
    rounds = range(calls)
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        for _ in rounds:
            run()
        return time.perf_counter() - start
    finally:
        gc.enable()


class Worker:
    """Answers the commands for one framework; every public method is one."""

    def __init__(self, framework: str) -> None:
        """Serve `framework`, a key of every case's builders."""
        self._framework = framework
        self._program: Program | None = None

    def _current(self) -> Program:
        if self._program is None:
            raise RuntimeError("no program: the compile command comes first")
        return self._program

    def hello(self) -> dict[str, str]:
        """Return the versions of what this process runs."""
        return _versions()

    def compile(self, case: str) -> float:
        """Build the case anew and return the seconds of its first call."""
        # Dropped first, or two programs' memory would be alive at once.
        self._program = None
        self._program = CASES[case].builders[self._framework]()
        return _seconds(self._program.run, 1)

    def compiles(self) -> bool:
        """Tell whether the first call says anything about a compiler."""
        return self._current().compiles

    def value(self, path: str) -> bool:
        """Run once and save the value to check as a NumPy file, if there is one."""
        program = self._current()
        value = (program.observe or program.run)()
        if program.comparable:
            np.save(path, np.asarray(value), allow_pickle=False)
        return program.comparable

    def calibrate(self, target: float) -> tuple[int, float]:
        """Return how many calls take about `target` seconds, and how long one takes."""
        run, calls = self._current().run, 1
        while (seconds := _seconds(run, calls)) < target / 4:
            calls *= 4
        return max(1, round(calls * target / seconds)), seconds / calls

    def measure(self, calls: int) -> float:
        """Return the seconds of one call, as the mean of `calls`."""
        run = self._current().run
        if calls > 1:
            # The caches belonged to another framework until now.
            run()
        return _seconds(run, calls) / calls


def _answer(worker: Worker, line: str) -> dict[str, Any]:
    command = json.loads(line)
    try:
        return {"ok": getattr(worker, command.pop("do"))(**command)}
    except Exception as error:
        # Compilers add pages to theirs.
        text = shorten(str(error), 160, placeholder=" ...")
        return {"error": f"{type(error).__name__}: {text}"}


def main() -> None:
    """Serve commands until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    worker = Worker(sys.argv[1])
    for line in sys.stdin:
        print(json.dumps(_answer(worker, line)), file=answers, flush=True)


if __name__ == "__main__":
    main()
