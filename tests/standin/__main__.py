"""Runs a command where JAX has a GPU: the machine's own, or the stand-in where it has none.

    python -m tests.standin python -m pytest -m gpu
    python -m tests.standin --platforms cuda,cpu python script.py

Without ``--platforms``, the command runs twice: with the GPU as JAX's default device, and with the
CPU.  Where there is neither a GPU nor what the stand-in is made of, it says so and runs nothing,
which is an error with ``--required``.
"""

import argparse
import os
import subprocess
import sys

from tests.standin.build import UnavailableError, environment

_HAS_GPU = "import jax; jax.devices('gpu')"


def main() -> int:
    """Run the command; return the first status that is not 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.standin", description=__doc__)
    parser.add_argument("--platforms", action="append", help="JAX_PLATFORMS; may be given twice")
    parser.add_argument("--required", action="store_true", help="fail where there is no GPU")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if _machine_has_gpu():
        variables: dict[str, str] = {}
    else:
        try:
            variables = environment()
        except UnavailableError as error:
            print(f"no GPU is here, and the stand-in is not available: {error}", file=sys.stderr)
            return int(options.required)
    for platforms in options.platforms or ["cuda,cpu", "cpu,cuda"]:
        print(f"JAX_PLATFORMS={platforms}", *options.command, file=sys.stderr, flush=True)
        done = subprocess.run(
            options.command, env={**os.environ, **variables, "JAX_PLATFORMS": platforms}
        )
        if done.returncode:
            return done.returncode
    return 0


def _machine_has_gpu() -> bool:
    # In a process of its own: JAX chooses its devices once.
    return subprocess.run([sys.executable, "-c", _HAS_GPU], capture_output=True).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
