"""The driver's end of a worker process."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


class WorkerError(Exception):
    """A command failed: its message says why, in one line."""


class Client:
    """Starts a worker, sends it commands, and starts another one if it dies."""

    def __init__(self, framework: str, python: str, devices: int) -> None:
        """Serve `framework` with the interpreter `python`, showing `devices` CPU devices."""
        self._framework, self._python, self._devices = framework, python, devices
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (as long-lived as the process)
        self._buffer = b""

    def _environment(self) -> dict[str, str]:
        environment = dict(os.environ)
        environment["JAX_PLATFORMS"] = "cpu"
        environment["JAX_ENABLE_X64"] = "1"
        # Served from a cache, a compile time would mean nothing.
        environment["JAX_ENABLE_COMPILATION_CACHE"] = "0"
        if self._devices > 1:
            flag = f"--xla_force_host_platform_device_count={self._devices}"
            environment["XLA_FLAGS"] = f"{environment.get('XLA_FLAGS', '')} {flag}".strip()
        return environment

    def _start(self) -> subprocess.Popen[bytes]:
        self._buffer = b""
        self._errors.truncate(0)
        self._errors.seek(0)
        return subprocess.Popen(
            [self._python, "-m", "benchmarks.worker", self._framework],
            cwd=ROOT,
            env=self._environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )

    def ask(self, do: str, timeout: float, **arguments: Any) -> Any:
        """Send one command and return its answer."""
        try:
            if self._process is None or self._process.poll() is not None:
                self._process = self._start()
            process = self._process
            assert process.stdin is not None
            process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
            process.stdin.flush()
            answer = json.loads(self._read_line(process, timeout))
        except (TimeoutError, OSError, EOFError) as error:
            self.close()
            raise WorkerError(str(error)) from error
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer["ok"]

    def _read_line(self, process: subprocess.Popen[bytes], timeout: float) -> bytes:
        assert process.stdout is not None
        deadline = time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError(f"no answer within {timeout:.0f} s")
                chunk = os.read(process.stdout.fileno(), 1 << 16)
                if not chunk:
                    raise EOFError(self._describe_end(process))
                self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _describe_end(self, process: subprocess.Popen[bytes]) -> str:
        code = process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f"the process ended with code {code}: {lines[-1] if lines else 'no message'}"

    def close(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is None:
            return
        # A hung program holds out against anything gentler.
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    continue
