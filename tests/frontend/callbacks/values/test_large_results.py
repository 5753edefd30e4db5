"""Large results do not pay for their memory page by page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.needs import LINUX, Need
from tests.patience import PATIENCE

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")

PROGRAM = """
import mmap, resource, sys
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

def ask_the_kernel(x):
    # For as much memory in huge pages, which nobody keeps.
    memory = mmap.mmap(-1, 8 * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.negative(x, out=np.frombuffer(memory))

x = jnp.linspace(0, 1, size)
for function in negate, negate_in_place, ask_the_kernel:
    for _ in range(8):
        y = jax.block_until_ready(function(x))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        y = jax.block_until_ready(function(x))
    print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // 20)
    assert y[-1] == -1.0 and y[0] == 0.0
"""


def faults(megabytes: int) -> tuple[int, int]:
    """Return the most page faults in a call, and those for memory that nobody kept."""
    command = [sys.executable, "-c", PROGRAM, str(megabytes)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert run.returncode == 0, run.stderr
    returned, in_place, fresh = map(int, run.stdout.split())
    return max(returned, in_place), fresh


@pytest.mark.subprocess
@LINUX.unless(sys.platform.startswith("linux"))
def test_memory_of_8_mb_is_kept_between_calls():
    # In pages of 4 KiB they are 2048.
    assert faults(8)[0] < 300


@pytest.mark.subprocess
@Need("huge pages", f"echo madvise > {HUGE_PAGES}").unless(
    HUGE_PAGES.exists() and "[never]" not in HUGE_PAGES.read_text()
)
def test_memory_of_64_mb_comes_in_huge_pages():
    # In pages of 4 KiB they are 16384; the ends of the memory still come in these.
    most, fresh = faults(64)
    if fresh > 2500:
        Need("free huge pages", "sysctl vm.compact_memory=1").skip()
    assert most < 2500
