"""The interpreters of the workers.

Bellhop, JAX, Lightning and the limits run where the harness runs.  Catalyst pins another
version of JAX, so it gets a virtual environment of its own; so do the simulators
that are no dependencies of ours.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from benchmarks.case import SIMULATORS


class EnvironmentFailure(Exception):
    """There is no interpreter with a framework, and none could be made."""


def find_python(framework: str) -> str:
    """Return the interpreter that runs `framework`."""
    if framework == "catalyst":
        return _environment("catalyst", "pennylane-catalyst")
    if framework in SIMULATORS and framework != "lightning":
        packages = (package for name, package in SIMULATORS.items() if name != "lightning")
        # TensorCircuit-NG leaves the choice of its backend, and of that one's version, to its user.
        return _environment("simulators", *packages, f"jax=={version('jax')}")
    return sys.executable


def _environment(name: str, *packages: str) -> str:
    if override := os.environ.get(f"BELLHOP_{name.upper()}_PYTHON"):
        return override
    folder = Path(__file__).resolve().parent / f".venv-{name}"
    python = folder / "bin" / "python"
    installed = folder / "installed"
    # An environment whose installation broke off, or that has other packages, is made again.
    requirements = "\n".join(packages)
    if not installed.exists() or installed.read_text() != requirements:
        print(f"making {folder} with {', '.join(packages)}, once", file=sys.stderr)
        _run(sys.executable, "-m", "venv", "--clear", str(folder))
        _run(str(python), "-m", "pip", "install", "--quiet", *packages)
        installed.write_text(requirements)
    return str(python)


def _run(*command: str) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        lines = done.stdout.strip().splitlines() or ["no message"]
        raise EnvironmentFailure(f"`{' '.join(command)}` failed: {lines[-1]}")
