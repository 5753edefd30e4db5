"""A process that runs scripts, and that may die of them."""

import contextlib
import json
import selectors
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from .verdict import Verdict

WORKER = (sys.executable, "-X", "faulthandler", "-m", "tests.fuzz.worker")
# Seconds until a script hangs.
PATIENCE = 300.0
# Scripts that one process runs: what they compile stays in its memory.
MOST = 300


class Child:
    """Runs scripts in a process of its own, and starts another where that dies or hangs.

    Attributes:
        errors: the file for what the process writes to its standard error.
        history: the scripts that the present process has run.
    """

    def __init__(self, errors: Path, command: tuple[str, ...] = WORKER) -> None:
        self.errors, self.command = errors, command
        self.process: subprocess.Popen[str] | None = None
        self.history: list[str] = []

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def judge(self, source: str) -> Verdict:
        """Run a script; a process that dies is a verdict too."""
        if len(self.history) >= MOST:
            self.__exit__()
        process = self.process = self.process or self._start()
        self.history.append(source)
        answer, hangs = self._answer(process, source)
        if answer:
            fields = json.loads(answer)
            return Verdict(**fields | {key: tuple(fields[key]) for key in ("refused", "outcomes")})
        if hangs:
            # It says where its threads are.
            process.send_signal(signal.SIGABRT)
        process.communicate()
        code, self.process = process.returncode, None
        kind = "hangs" if hangs else f"dies of {signal.Signals(-code).name if code < 0 else code}"
        return Verdict(kind, self.errors.read_text(errors="replace")[-6000:])

    def _start(self) -> Any:
        self.history = []
        with self.errors.open("w") as errors:
            return subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    @staticmethod
    def _answer(process: Any, source: str) -> tuple[str, bool]:
        """Return what a process says of a script, if anything, and whether it hangs."""
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(source) + "\n")
            process.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            if not selector.select(PATIENCE):
                return "", True
        return process.stdout.readline(), False
