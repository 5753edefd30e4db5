"""First calls: each in a process of its own, in which one other program has been compiled.

What counts is processor time, of all threads: it hardly depends on what else the machine does.  The
processes are forks of one that has imported everything and started none of JAX's devices.
"""

from __future__ import annotations

import gc
import multiprocessing
import statistics
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

GOAL = 1.5
MEDIAN_GOAL = 1.2


def measure(programs: Sequence[str], rounds: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each program, and one for the median of all programs.

    Args:
        programs: names of programs.
        rounds: first calls of each.
    """
    import optax  # noqa: F401

    import bellhop  # noqa: F401

    # Else a garbage collection, which walks over all objects of the imported modules for 5 ms,
    # falls into some of the measured calls and not into others.
    gc.collect()
    gc.freeze()
    rows = []
    for program in programs:
        pairs = [
            [_first_call(program, compiler) for compiler in ("bellhop", "jax")]
            for _ in range(rounds)
        ]
        ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
        row = {"case": program, "ratio": ours / theirs, "jax_s": theirs, "goal": GOAL}
        rows.append(row)
        yield row
    median = statistics.median(row["ratio"] for row in rows)
    yield {"case": f"median of {len(rows)}", "ratio": median, "jax_s": 0.0, "goal": MEDIAN_GOAL}


def _first_call(program: str, compiler: str) -> float:
    """Return the processor time of a program's first call, in a process of its own."""
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    child = fork.Process(target=_send_first_call, args=(program, compiler, sender))
    with warnings.catch_warnings():
        # JAX warns of forks, for the sake of devices.
        warnings.simplefilter("ignore")
        child.start()
    sender.close()
    seconds: float = receiver.recv()
    child.join()
    return seconds


def _send_first_call(program: str, compiler: str, sender: Any) -> None:
    import jax
    import jax.numpy as jnp

    import bellhop
    from benchmarks.ratios.programs import PROGRAMS

    compile_ = bellhop.qjit if compiler == "bellhop" else jax.jit
    # What a process does once.
    jax.block_until_ready(compile_(lambda x: jnp.sin(x) + 2)(jnp.ones(3)))
    function, arguments = PROGRAMS[program]()
    compiled = compile_(function)
    start = time.process_time()
    jax.block_until_ready(compiled(*arguments))
    sender.send(time.process_time() - start)
