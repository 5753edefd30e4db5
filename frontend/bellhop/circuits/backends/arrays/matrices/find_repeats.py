"""Find repeated subsequences.

Gates often come in layers, which only differ in their parameters.  Repeated layers become a loop,
which XLA compiles as fast as one layer::

    steps        a b c d c d c d
    repeats      a b, once; c d, three times
"""

from collections.abc import Hashable, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np

Step = TypeVar("Step", bound=Hashable)

# Smallest number of saved steps: a loop that saves fewer takes longer to compile than its steps.
_MIN_SAVED_STEPS = 4


class RepeatedSteps(NamedTuple, Generic[Step]):
    """A sequence of steps, and how often it is applied in succession.

    Attributes:
        steps: the steps of one repetition.
        n_repeats: number of repetitions, at least one.
    """

    steps: tuple[Step, ...]
    n_repeats: int


def find_repeats(steps: Sequence[Step]) -> list[RepeatedSteps[Step]]:
    """Split a sequence into repeated subsequences, greedily from the start.

    For instance ``a b c d c d c d`` gives ``[((a, b), 1), ((c, d), 3)]``. A subsequence only counts
    as repeated if that saves at least four steps.

    Args:
        steps: hashable steps; equal steps are interchangeable.

    Returns:
        subsequences in order, whose concatenated repetitions are `steps`.
    """
    period, saved = _find_periods(steps)
    repeats: list[RepeatedSteps[Step]] = []
    start = index = 0
    while index < len(steps):
        if saved[index] < _MIN_SAVED_STEPS:
            index += 1
            continue
        if start < index:
            repeats.append(RepeatedSteps(tuple(steps[start:index]), 1))
        length = period[index]
        repeats.append(
            RepeatedSteps(tuple(steps[index : index + length]), 1 + saved[index] // length)
        )
        start = index = index + length + saved[index]
    if start < len(steps):
        repeats.append(RepeatedSteps(tuple(steps[start:]), 1))
    return repeats


def _find_periods(steps: Sequence[Hashable]) -> tuple[list[int], list[int]]:
    """Find for each index the repetition that starts there and saves most steps.

    A loop only needs the steps of the first repetition, and saves the steps of all further ones.
    For instance ``a b a b c`` gives the periods ``[2, 0, 0, 0, 0]``, and the same numbers of saved
    steps.

    Returns:
        for each index, the period (length of one repetition), and the number of saved steps: the
        period times the number of further repetitions. Both are zero where nothing repeats.
    """
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
