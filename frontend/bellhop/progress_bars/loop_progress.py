"""The callback kind that reports the progress of loops."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import JaxprEqn

from bellhop.callbacks.callback_type import CallbackType, checkpoint_residuals, ordered_effect
from bellhop.compiler.callback_target import CallbackTarget
from bellhop.progress_bars.bars import LoopLabel

# Special values of `done` and `total`, as in runtime/contract.toml.
BEGINS = UNKNOWN = -1


class _ProgressType(CallbackType):
    """Callback that reports progress; operands are done, total and dependencies.

    `done` and `total` are the function's arguments; the remaining operands only order the call
    after them.
    """

    kind = "progress"
    effects = frozenset({ordered_effect})
    n_arguments = 2

    def run(self, *leaves: Any, target: CallbackTarget) -> list[Any]:
        """Update the bar of a loop that Python runs."""
        label: Any = target.function
        done, total, *_ = leaves
        label.advance_in_python(int(total))
        return [jnp.asarray(done)]

    def batch(
        self, operands: Sequence[Any], dims: Sequence[Any], *, target: CallbackTarget
    ) -> tuple[list[Any], Sequence[Any]]:
        """Report one bar for the whole batch, with the largest total."""
        done, total, *dependencies = operands
        if dims[1] is not None:
            total = jnp.max(total, axis=dims[1], initial=UNKNOWN)
        return self.primitive.bind(done, total, *dependencies, target=target), [None]

    def check_tangents(self, tangents: Sequence[Any], target: CallbackTarget) -> None:
        """Accept all tangents, since the operands only order the call."""

    def partial_eval(
        self, saveable: Any, unknown: Sequence[bool], instantiated: Sequence[bool], eqn: JaxprEqn
    ) -> tuple[Any, ...]:
        """Under ``jax.checkpoint``, report the forward pass only."""
        del saveable
        if any(unknown):
            return None, eqn, [True], [True], checkpoint_residuals(instantiated, eqn)
        return eqn, None, [False], [False], []


_PROGRESS = _ProgressType("progress")


class LoopProgress:
    """Progress reports of one loop in a program.

    Args:
        description: text before its bar.
    """

    def __init__(self, description: str) -> None:
        count = ShapedArray((), jax.dtypes.canonicalize_dtype(int))
        self._target = _PROGRESS.target(
            LoopLabel(description),
            jax.tree.structure(((0, 0), {})),
            ((count,), jax.tree.structure(0)),
        )

    def begin(self, total: Any = UNKNOWN) -> None:
        """Report the start of the loop.

        Args:
            total: number of iterations, or `UNKNOWN`.
        """
        self._report_progress(BEGINS, total)

    def advance(self, total: Any = UNKNOWN, *, after: Any) -> None:
        """Report one finished iteration.

        Args:
            total: number of iterations, or `UNKNOWN`; the last iteration ends the loop.
            after: pytree with results of the iteration, which orders the report.
        """
        dependencies = [leaf for leaf in jax.tree.leaves(after) if isinstance(leaf, jax.Array)]
        self._report_progress(1, total, *dependencies)

    def end(self, total: Any) -> None:
        """Report the end of the loop after `total` iterations."""
        self._report_progress(0, total)

    def _report_progress(self, done: int, total: Any, *dependencies: Any) -> None:
        counts = [jax.lax.convert_element_type(count, int) for count in (done, total)]
        _PROGRESS.primitive.bind(*counts, *dependencies, target=self._target)
