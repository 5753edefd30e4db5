"""What a traced value is computed from, by the equations that JAX notes of tracers."""

from collections.abc import Sequence
from typing import Any

from jax.core import Tracer
from jax.extend.core.primitives import cond_p, scan_p, while_p

from bellhop._jax.private import equation_of, without_wrapping

_CONTROL_FLOW = (cond_p, scan_p, while_p)


def origins(value: object, ends: Sequence[Any]) -> tuple[set[int], set[int]]:
    """Return the tracers that a value is computed from.

    Args:
        value: is being traced.
        ends: tracers that count as computed from nothing, as arguments do.

    Returns:
        the ids of those that it is computed from, and of those that it is where a loop or a
        conditional stands between.
    """
    stops = set(map(id, ends))
    found: tuple[set[int], set[int]] = set(), set()
    seen: dict[tuple[int, bool], Any] = {}
    todo = [(value, False)]
    while todo:
        wrapped, is_behind = todo.pop()
        each = without_wrapping(wrapped)
        key = id(each), is_behind
        if not isinstance(each, Tracer) or key in seen:
            continue
        seen[key] = each
        eqn, _ = equation_of(each)
        if eqn is None or id(each) in stops:
            found[is_behind].add(id(each))
            continue
        is_inside = is_behind or eqn.primitive in _CONTROL_FLOW
        todo += [(operand, is_inside) for operand in eqn.in_tracers]
    return found
