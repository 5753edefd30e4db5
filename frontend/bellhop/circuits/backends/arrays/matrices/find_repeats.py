"""Stretches of a sequence that repeat.

Gates come in layers, which differ by their parameters alone: such steps are a loop of the program,
which takes as long to compile as one layer does, however many there are::

    steps        a b c d c d c d
    stretches    a b, once; c d, three times
"""

from collections.abc import Hashable, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np

Step = TypeVar("Step", bound=Hashable)

# A loop of fewer steps in place of its rounds would take longer to compile than they do.
_FEWEST_SAVED = 4


class Stretch(NamedTuple, Generic[Step]):
    """Steps, and how often they come one after the other."""

    steps: tuple[Step, ...]
    times: int


def stretches(steps: Sequence[Step]) -> list[Stretch[Step]]:
    """Return a sequence in stretches, the first of which repeats first.

    Args:
        steps: of which those are equal that are the same step.
    """
    period, saved = _periods(steps)
    found: list[Stretch[Step]] = []
    start = place = 0
    while place < len(steps):
        if saved[place] < _FEWEST_SAVED:
            place += 1
            continue
        if start < place:
            found.append(Stretch(tuple(steps[start:place]), 1))
        length = period[place]
        found.append(Stretch(tuple(steps[place : place + length]), 1 + saved[place] // length))
        start = place = place + length + saved[place]
    if start < len(steps):
        found.append(Stretch(tuple(steps[start:]), 1))
    return found


def _periods(steps: Sequence[Hashable]) -> tuple[list[int], list[int]]:
    """Return how long what repeats most from each step on is, and how many steps repeat it."""
    numbers = {step: number for number, step in enumerate(dict.fromkeys(steps))}
    sequence = np.array([numbers[step] for step in steps])
    n_steps = len(steps)
    best, saved = np.zeros((2, n_steps), int)
    for period in range(1, n_steps // 2 + 1):
        differs = np.append(sequence[period:] != sequence[:-period], True)
        places = np.where(differs, np.arange(len(differs)), n_steps)
        equal = np.minimum.accumulate(places[::-1])[::-1] - np.arange(len(differs))
        repeated = np.zeros(n_steps, int)
        repeated[: len(differs)] = equal // period * period
        is_more = repeated > saved
        best[is_more], saved[is_more] = period, repeated[is_more]
    return best.tolist(), saved.tolist()
