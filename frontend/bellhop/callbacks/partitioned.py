"""Callbacks in a program that XLA partitions: an exception on one device is raised on all.

Devices wait for each other where they exchange results.  If one of them failed before that, XLA
would end the process.  So the first device, which makes the call, sends the number of the
exception along with the results, and all devices raise it.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive

from bellhop.compiler.target import CallbackTarget

# As many exceptions are kept, for devices that have yet to raise them.
_KEPT = 64


class _Attempt:
    """Calls a target; returns the number of its exception, or 0, and the results."""

    def __init__(
        self, target: CallbackTarget, call: Callable[[CallbackTarget, Sequence[Any]], Any]
    ) -> None:
        self._target = target
        self._call = call
        self._numbers = itertools.count(1)
        self._exceptions: dict[int, BaseException] = {}

    def __call__(self, *leaves: Any) -> tuple[Any, ...]:
        try:
            return np.int32(0), *self._call(self._target, leaves)
        except BaseException as exception:
            number = next(self._numbers) % (1 << 31) or 1
            self._exceptions.pop(number - _KEPT, None)
            self._exceptions[number] = exception
        return np.int32(number), *[
            np.zeros(aval.shape, aval.dtype) for aval in self._target.result_avals
        ]

    def settle(self, number: Any) -> None:
        """Raise what was raised, if anything was."""
        if number:
            raise self._exceptions[int(number)]


def attempted(
    primitive: Primitive,
    report_p: Primitive,
    target: CallbackTarget,
    call: Callable[[CallbackTarget, Sequence[Any]], Any],
    arity: int,
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return a call of a target in two parts.

    Args:
        primitive: that of the target.
        report_p: a primitive whose calls are always made.
        target: what is called.
        call: calls a target with arrays and returns its results.
        arity: how many arrays the target takes.

    Returns:
        the call, which never fails, and what makes of its results those of the target, or raises.
    """
    attempt = _Attempt(target, call)

    def part(function: Any, arity: int, out_tree: Any, *result_avals: Any) -> CallbackTarget:
        return CallbackTarget(
            flavour=target.flavour,
            function=functools.update_wrapper(function, target.function),
            in_tree=jax.tree.structure(((0,) * arity, {})),
            out_tree=jax.tree.structure(out_tree),
            result_avals=result_avals,
            site=target.site,
        )

    number_and_results = ShapedArray((), jnp.int32), *target.result_avals
    outcome = part(attempt, arity, (0,) * len(number_and_results), *number_and_results)
    settling = part(functools.partial(attempt.settle), 1, None)

    def settle(number: Any, *results: Any) -> Sequence[Any]:
        report_p.bind(number, target=settling)
        return results

    return functools.partial(primitive.bind, target=outcome), settle
