"""The order of the qubits of a state, and states in another one."""

from collections.abc import Sequence
from typing import Any

from bellhop.base.types import Operand


def permuted(state: Operand, before: Sequence[int], after: Sequence[int], base: int) -> Any:
    """Return a state whose qubits are in another order, moving those together that stay so."""
    places = [before.index(qubit) for qubit in after]
    starts = [n for n, place in enumerate(places) if not n or place != places[n - 1] + 1]
    if len(starts) == 1:
        return state
    ends = [*starts[1:], len(places)]
    first = [places[start] for start in starts]
    length = dict(zip(first, (b - a for a, b in zip(starts, ends, strict=True)), strict=True))
    in_order = sorted(first)
    groups = state.reshape(len(state), *(base ** length[place] for place in in_order))
    return groups.transpose(0, *(1 + in_order.index(place) for place in first)).reshape(state.shape)
