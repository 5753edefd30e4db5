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
    """Callback type and primitive that report the progress of a loop to the runtime.

    The operands of the primitive are `done`, the number of iterations since the last report, or
    `BEGINS`; `total`, the number of all iterations, or `UNKNOWN` to keep the number reported
    before; and arrays that must be computed before the report. The result is an integer,
    which is not used.
    """

    kind = "progress"
    effects = frozenset({ordered_effect})
    n_arguments = 2

    def run(self, *leaves: Any, target: CallbackTarget) -> list[Any]:
        """Impl rule: update the bar of a loop that Python runs, outside of traces.

        Args:
            *leaves: the primitive's operands: `done`, `total`, and further arrays.
            target: description of the callback, whose function is the loop's `LoopLabel`.

        Returns:
            a list with `done` as an array.
        """
        label: Any = target.function
        done, total, *_ = leaves
        label.report_in_python(int(done), int(total))
        return [jnp.asarray(done)]

    def batch(
        self, operands: Sequence[Any], dims: Sequence[Any], *, target: CallbackTarget
    ) -> tuple[list[Any], Sequence[Any]]:
        """Batching rule: report the progress of all batch elements together, as one bar.

        The bar's total is the largest total of the batch. The result has no batch axis.
        """
        done, total, *dependencies = operands
        if dims[1] is not None:
            total = jnp.max(total, axis=dims[1], initial=UNKNOWN)
        return self.primitive.bind(done, total, *dependencies, target=target), [None]

    def check_tangents(self, tangents: Sequence[Any], target: CallbackTarget) -> None:
        """Do nothing: operands with tangents are allowed, and a report has no derivative.

        The method of the base class raises an error.
        """

    def partial_eval(
        self, saveable: Any, unknown: Sequence[bool], instantiated: Sequence[bool], eqn: JaxprEqn
    ) -> tuple[Any, ...]:
        """Partial evaluation rule under ``jax.checkpoint``: report in one of the passes.

        The report is made in the forward pass, unless an operand is unknown there, that is, depends
        on a tangent; then it is made in the recomputation. ``saveable``, JAX's policy, is not used.

        Returns:
            JAX's tuple: the known equation and the recomputed equation, or None; for each result
            whether it is unknown and whether the recomputation computes it; and residuals.
        """
        del saveable
        if any(unknown):
            return None, eqn, [True], [True], checkpoint_residuals(instantiated, eqn)
        return eqn, None, [False], [False], []


_PROGRESS = _ProgressType("progress")


class LoopProgress:
    """The progress bar of one loop in a traced program.

    While the loop is traced, its methods add reports to the program: `begin` before the loop,
    `advance` in its body and `end` after it.

    Args:
        description: text before the bar; empty for no text.
    """

    def __init__(self, description: str) -> None:
        count = ShapedArray((), jax.dtypes.canonicalize_dtype(int))
        self._target = _PROGRESS.target(
            LoopLabel(description),
            jax.tree.structure(((0, 0), {})),
            ((count,), jax.tree.structure(0)),
        )

    def begin(self, total: Any = UNKNOWN) -> None:
        """Report to the runtime, in the traced program, that the loop starts.

        Args:
            total: number of iterations, possibly traced; `UNKNOWN` for a ``while`` loop.
        """
        self._report_progress(BEGINS, total)

    def advance(self, total: Any = UNKNOWN, *, after: Any) -> None:
        """Report to the runtime, in the traced program, that an iteration has finished.

        Args:
            total: number of all iterations, possibly traced; the bar ends when it has counted
                them. `UNKNOWN` to keep the number reported before.
            after: pytree with results of the iteration; the report is made after they are computed.
        """
        dependencies = [leaf for leaf in jax.tree.leaves(after) if isinstance(leaf, jax.Array)]
        self._report_progress(1, total, *dependencies)

    def end(self, total: Any) -> None:
        """Report to the runtime, in the traced program, that the loop has ended.

        Args:
            total: number of iterations that have been executed, possibly traced.
        """
        self._report_progress(0, total)

    def _report_progress(self, done: int, total: Any, *dependencies: Any) -> None:
        """Bind the primitive of a report, which is made after `dependencies` are computed."""
        counts = [jax.lax.convert_element_type(count, int) for count in (done, total)]
        _PROGRESS.primitive.bind(*counts, *dependencies, target=self._target)
