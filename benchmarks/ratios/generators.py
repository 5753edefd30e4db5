"""XLA's two generators of CPU kernels (jaxlib 0.10): the older's times by the newer's.

This is what `frontend/bellhop/settings/code_generation.py` decides by: up to which size of arrays
kernels of both take the same time, here in a loop of a hundred iterations, which hides what a call
from Python costs; and what each takes to compile.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.ratios.kinds import KINDS
from benchmarks.ratios.run_times import run_time_ratio

OPTION = "xla_cpu_use_fusion_emitters"
ROWS = (1, 2, 4, 5, 6, 8, 12, 16, 24)
# What maps a matrix to a matrix, so that it can be repeated.
REPEATED = ("tanh", "sin and cos", "softmax", "layer norm", "add", "transpose", "power",
            "matrix product", "chain of products", "attention", "gradient of tanh",
            "gradient of layer norm", "cumulative sum", "scatter")  # fmt: skip


def measure(kinds: Sequence[str], rounds: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each kind, number of elements and precision.

    Args:
        kinds: names of kinds, of which those that are not in `REPEATED` are left out.
        rounds: pairs of turns.
    """
    for rows in ROWS:
        for dtype in ("float64", "float32"):
            for kind in (kind for kind in kinds if kind in REPEATED):
                x = jnp.linspace(0.25, 0.45, rows * rows).reshape(rows, rows).astype(dtype)
                (older, older_s), (newer, newer_s) = (
                    _compiled(kind, x, is_newer) for is_newer in (False, True)
                )
                ratio, seconds = run_time_ratio(partial(older, x), partial(newer, x), rounds)
                yield {
                    "case": f"{kind}, {rows * rows} elements, {dtype}",
                    "ratio": ratio,
                    "jax_s": seconds,
                    "first_older_s": older_s,
                    "first_newer_s": newer_s,
                }


def _compiled(kind: str, x: Any, is_newer: bool) -> tuple[Any, float]:
    """Return a loop over a kind, compiled by a generator, and its first call's processor time."""
    step = lambda i, x: 0.5 * KINDS[kind](x) + 0.1
    loop = lambda x: jax.lax.fori_loop(0, 100, step, x)
    compiled = jax.jit(loop, compiler_options={OPTION: is_newer})
    start = time.process_time()
    compiled(x).block_until_ready()
    return compiled, time.process_time() - start
