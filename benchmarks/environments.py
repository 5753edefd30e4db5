"""The interpreters of the workers.

Bellhop, JAX and the limits run where the harness runs.  Catalyst pins another
version of JAX, so it gets a virtual environment of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

OVERRIDE = "BELLHOP_CATALYST_PYTHON"
CATALYST = Path(__file__).resolve().parent / ".venv-catalyst"


class EnvironmentFailure(Exception):
    """There is no interpreter with Catalyst, and none could be made."""


def python_for(framework: str) -> str:
    """Return the interpreter that runs `framework`."""
    return _catalyst() if framework == "catalyst" else sys.executable


def _catalyst() -> str:
    if override := os.environ.get(OVERRIDE):
        return override
    python = CATALYST / "bin" / "python"
    installed = CATALYST / "installed"
    # The mark tells a complete environment from one whose installation broke off.
    if not installed.exists():
        print(f"making {CATALYST} with PennyLane Catalyst, once", file=sys.stderr)
        _run(sys.executable, "-m", "venv", "--clear", str(CATALYST))
        _run(str(python), "-m", "pip", "install", "--quiet", "pennylane-catalyst")
        installed.touch()
    return str(python)


def _run(*command: str) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        lines = done.stdout.strip().splitlines() or ["no message"]
        raise EnvironmentFailure(f"`{' '.join(command)}` failed: {lines[-1]}")
