"""Programs over several processes, of one device each."""

import os
import socket
import subprocess
import sys

from tests.needs import Need
from tests.patience import PATIENCE

_BEGIN = """
import sys
import bellhop
import jax
try:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(
        coordinator_address="127.0.0.1:{port}", num_processes={count}, process_id={process},
        initialization_timeout=300,
    )
    devices = jax.devices("cpu")
except Exception as error:
    print("unavailable:", error)
    sys.exit()
import jax.numpy as jnp, numpy as np
"""


def run_in_processes(program: str, count: int = 2) -> list[str]:
    """Run a program in several processes at once, which JAX knows as one system.

    Args:
        program: begins with ``bellhop``, ``jax``, ``jnp``, ``np`` and ``devices``, all of them; it
            prints one line that begins with ``RESULT``.
        count: how many processes.

    Returns:
        these lines.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    begins = [_BEGIN.format(port=port, process=n, count=count) for n in range(count)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", begin + program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # One device each: the mesh is over the processes.
            env={**os.environ, "XLA_FLAGS": ""},
        )
        for begin in begins
    ]
    try:
        outputs = [process.communicate(timeout=PATIENCE) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for out, _ in outputs:
        if "unavailable:" in out:
            gloo = f"Gloo between processes, which says {out.strip()!r},"
            Need(gloo, "pip install --force-reinstall jaxlib").skip()
    for process, (_, error) in zip(processes, outputs, strict=True):
        assert process.returncode == 0, error
    lines = [line for out, _ in outputs for line in out.splitlines() if line.startswith("RESULT")]
    assert len(lines) == count, outputs
    return lines
