"""Large results do not pay for their memory page by page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import PATIENCE

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")

PROGRAM = """
import resource, sys
import jax, jax.numpy as jnp, numpy as np
import bellhop

size = int(sys.argv[1]) << 17
kind = jax.ShapeDtypeStruct((size,), jnp.float64)
owned = np.zeros(size)

@bellhop.qjit
@bellhop.pure_callback(result_type=kind)
def negate(x):
    return np.negative(x, out=owned)

def write(context, out, x):
    np.negative(np.asarray(x), out=np.asarray(out))

negate_in_place = bellhop.qjit(bellhop.buffer_callback(write, kind))

x = jnp.linspace(0, 1, size)
for function in negate, negate_in_place:
    for _ in range(8):
        y = function(x).block_until_ready()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        y = function(x).block_until_ready()
    print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // 20)
    assert y[-1] == -1.0 and y[0] == 0.0
"""


def faults(megabytes: int) -> list[int]:
    command = [sys.executable, "-c", PROGRAM, str(megabytes)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert run.returncode == 0, run.stderr
    return [int(line) for line in run.stdout.split()]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator")
def test_memory_of_8_mb_is_kept_between_calls():
    # In pages of 4 KiB they are 2048.
    assert max(faults(8)) < 300


@pytest.mark.skipif(
    not HUGE_PAGES.exists() or "[never]" in HUGE_PAGES.read_text(),
    reason="the kernel has no huge pages",
)
def test_memory_of_64_mb_comes_in_huge_pages():
    # In pages of 4 KiB they are 16384; the ends of the memory still come in these.
    assert max(faults(64)) < 2500
