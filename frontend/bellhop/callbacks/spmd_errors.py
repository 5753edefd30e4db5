"""Exceptions of callbacks in partitioned programs: all devices raise them.

Devices wait for each other where they exchange results.  If one device failed before that, XLA
would end the process.  Therefore the first device, which makes the call, sends the id under which
the runtime keeps the exception along with the results, and all devices raise the exception.
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

# Type of an exception id in a program: two words, as 64-bit integers may be disabled. Zero: no
# exception.
_EXCEPTION_ID = ShapedArray((2,), np.dtype(np.uint32))


def _call_and_record(target: CallbackTarget, *leaves: Operand) -> tuple[Any, ...]:
    """Call a callback with concrete arrays; return an exception id and the results.

    If the function raises, the runtime keeps the exception under the id, and the results are zeros.

    Args:
        target: the callback.
        *leaves: leaves of its arguments, concrete arrays.

    Returns:
        the id, uint32[2], zero without an exception; then the result leaves.
    """
    try:
        return np.zeros(_EXCEPTION_ID.shape, _EXCEPTION_ID.dtype), *call_with_arrays(target, leaves)
    except BaseException as exception:
        exception_id = np.array([keep_failure(exception)], np.uint64).view(_EXCEPTION_ID.dtype)
    return exception_id, *[np.zeros(aval.shape, aval.dtype) for aval in target.result_avals]


def _raise_recorded(exception_id: Any) -> None:
    """Raise the exception with an id; do nothing for id zero."""
    if exception_id.any():
        raise look_at_failure(int(exception_id.view(np.uint64)[0]))


def split_call(
    primitive: Primitive, combining_p: Primitive, target: CallbackTarget, arity: int
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Split a callback's call in two: a call that never raises, and a function that raises.

        exception_id, *results = attempt(*leaves)            on one device
        results = raise_recorded(exception_id, *results)     on every device

    The first function calls the user's function, and records its exception under the id. The
    second function raises this exception on every device. Each of them binds a callback primitive.

    Args:
        primitive: primitive of the callback, which `attempt` binds.
        combining_p: callback primitive that `raise_recorded` binds. It has side effects, so that
            the compiler never drops the call, which has no results.
        target: the callback.
        arity: number of leaves of the callback's arguments.

    Returns:
        the functions `attempt` and `raise_recorded`.
    """

    def make_target(
        function: Callable[..., Any], arity: int, out_tree: PyTreeDef, *result_avals: Any
    ) -> CallbackTarget:
        """Make a callback that calls `function`, with the name and site of `target`.

        Args:
            function: takes arrays; returns None or a tuple of arrays.
            arity: number of arguments of `function`.
            out_tree: an example of the pytree that `function` returns; only its structure is used.
            *result_avals: types of the returned arrays.
        """
        return CallbackTarget(
            public_name=target.public_name,
            function=functools.update_wrapper(function, target.function),
            in_tree=jax.tree.structure(((0,) * arity, {})),
            out_tree=jax.tree.structure(out_tree),
            result_avals=result_avals,
            site=target.site,
        )

    id_and_results = _EXCEPTION_ID, *target.result_avals
    attempt = functools.partial(_call_and_record, target)
    outcome = make_target(attempt, arity, (0,) * len(id_and_results), *id_and_results)
    combining = make_target(functools.partial(_raise_recorded), 1, None)

    def combine(exception_id: Any, *results: Any) -> Sequence[Any]:
        """Raise the exception with the given id, if it is not zero; return the results."""
        combining_p.bind(exception_id, target=combining)
        return results

    return functools.partial(primitive.bind, target=outcome), combine
