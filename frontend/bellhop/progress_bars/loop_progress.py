"""The flavour of callback that tells how far a loop is."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import JaxprEqn

from bellhop.callbacks.callback_type import CallbackType, checkpoint_residuals, ordered_effect
from bellhop.compiler.callback_target import CallbackTarget
from bellhop.progress_bars.bars import LoopLabel

# What stands for how many iterations are done, and how many there are, in runtime/contract.toml.
BEGINS = UNKNOWN = -1


class _ProgressType(CallbackType):
    """Calls of ``done, total, anchors...`` that return how many iterations to do before the next.

    The first two are the function's arguments; the call comes after the anchors.
    """

    kind = "progress"
    effects = frozenset({ordered_effect})
    n_arguments = 2

    def run(self, *leaves: Any, target: CallbackTarget) -> list[Any]:
        """Show it where no program runs, as in a loop of Python's."""
        label: Any = target.function
        done, total, *_ = leaves
        label.advance_in_python(int(total))
        return [jnp.asarray(done)]

    def batch(
        self, operands: Sequence[Any], dims: Sequence[Any], *, target: CallbackTarget
    ) -> tuple[list[Any], Sequence[Any]]:
        """Show one bar for the whole batch: that of the element that is furthest."""
        done, total, *anchors = operands
        if dims[1] is not None:
            total = jnp.max(total, axis=dims[1], initial=UNKNOWN)
        return self.primitive.bind(done, total, *anchors, target=target), [None]

    def check_tangents(self, tangents: Sequence[Any], target: CallbackTarget) -> None:
        """Allow all: they are anchors."""

    def partial_eval(
        self, saveable: Any, unknown: Sequence[bool], instantiated: Sequence[bool], eqn: JaxprEqn
    ) -> tuple[Any, ...]:
        """Under ``jax.checkpoint``, tell of the forward pass alone."""
        del saveable
        if any(unknown):
            return None, eqn, [True], [True], checkpoint_residuals(instantiated, eqn)
        return eqn, None, [False], [False], []


_PROGRESS = _ProgressType("progress")


class LoopProgress:
    """One loop of a program, which tells how far it is.

    Args:
        description: what its bar is called.
    """

    def __init__(self, description: str) -> None:
        count = ShapedArray((), jax.dtypes.canonicalize_dtype(int))
        self._target = _PROGRESS.target(
            LoopLabel(description),
            jax.tree.structure(((0, 0), {})),
            ((count,), jax.tree.structure(0)),
        )

    def begin(self, total: Any = UNKNOWN) -> None:
        """Tell that the loop begins, and how many iterations it has, if that is known."""
        self._report_progress(BEGINS, total)

    def advance(self, total: Any = UNKNOWN, *, after: Any) -> None:
        """Tell that one more iteration is done.

        Args:
            total: how many there are, if that is known; the last one ends the loop.
            after: a pytree that it returned, among other things.
        """
        anchors = [leaf for leaf in jax.tree.leaves(after) if isinstance(leaf, jax.Array)]
        self._report_progress(1, total, *anchors)

    def end(self, total: Any) -> None:
        """Tell that the loop has ended, after so many iterations."""
        self._report_progress(0, total)

    def _report_progress(self, done: int, total: Any, *anchors: Any) -> None:
        numbers = [jax.lax.convert_element_type(number, int) for number in (done, total)]
        _PROGRESS.primitive.bind(*numbers, *anchors, target=self._target)
