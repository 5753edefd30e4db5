"""Callbacks in a program that XLA partitions: an exception on one device is raised on all.

Devices wait for each other where they exchange results.  If one of them failed before that, XLA
would end the process.  So the first device, which makes the call, sends the number that the runtime
keeps the exception under along with the results, and all devices raise it.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.tree_util import PyTreeDef

from bellhop.base.types import Operand
from bellhop.callbacks.eager import call_with_arrays
from bellhop.compiler.callback_target import CallbackTarget
from bellhop_runtime import keep_failure, look_at_failure

# A number as programs take it, whose integers may have 32 bits; zeros where there is none.
_NUMBER = ShapedArray((2,), np.dtype(np.uint32))


def _call_and_record(target: CallbackTarget, *leaves: Operand) -> tuple[Any, ...]:
    """Call a target; return the number of its exception, and the results."""
    try:
        return np.zeros(_NUMBER.shape, _NUMBER.dtype), *call_with_arrays(target, leaves)
    except BaseException as exception:
        number = np.array([keep_failure(exception)], np.uint64).view(_NUMBER.dtype)
    return number, *[np.zeros(aval.shape, aval.dtype) for aval in target.result_avals]


def _raise_recorded(exception_id: Any) -> None:
    """Raise what was raised, if anything was."""
    if exception_id.any():
        raise look_at_failure(int(exception_id.view(np.uint64)[0]))


def split_call(
    primitive: Primitive, combining_p: Primitive, target: CallbackTarget, arity: int
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return a call of a target in two parts.

    Args:
        primitive: that of the target.
        combining_p: a primitive whose calls are always made.
        target: what is called.
        arity: how many arrays the target takes.

    Returns:
        the call, which never fails, and what makes of its results those of the target, or raises.
    """

    def part(
        function: Callable[..., Any], arity: int, out_tree: PyTreeDef, *result_avals: Any
    ) -> CallbackTarget:
        return CallbackTarget(
            flavour=target.flavour,
            function=functools.update_wrapper(function, target.function),
            in_tree=jax.tree.structure(((0,) * arity, {})),
            out_tree=jax.tree.structure(out_tree),
            result_avals=result_avals,
            site=target.site,
        )

    number_and_results = _NUMBER, *target.result_avals
    attempt = functools.partial(_call_and_record, target)
    outcome = part(attempt, arity, (0,) * len(number_and_results), *number_and_results)
    combining = part(functools.partial(_raise_recorded), 1, None)

    def combine(number: Any, *results: Any) -> Sequence[Any]:
        combining_p.bind(number, target=combining)
        return results

    return functools.partial(primitive.bind, target=outcome), combine
