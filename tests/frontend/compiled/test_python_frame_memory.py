"""How much memory CPython maps for the frames of calls, at each depth of the stack."""

import resource
import sys
from collections.abc import Callable
from typing import Any

from bellhop.compiled.python_frame_memory import preallocate_frames

CALLS = 2000


def faults_of_calls(depth: int) -> int:
    """Return the pages that are mapped for many calls, each behind the other, so deep."""
    if depth:
        return faults_of_calls(depth - 1)
    nothing: Callable[[int], Any] = lambda number: number
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for number in range(CALLS):
        nothing(number)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def most_faults() -> int:
    """Return the most at any depth; a piece that CPython maps has room for a hundred of these."""
    return max(map(faults_of_calls, range(200)))


def test_calls_map_no_memory_at_any_depth() -> None:
    plain = most_faults()
    in_one_piece = preallocate_frames(lambda: most_faults())()
    assert in_one_piece < CALLS / 10
    if sys.version_info < (3, 14):
        assert plain > CALLS / 2, "CPython does not map memory call by call: the decorator can go"
