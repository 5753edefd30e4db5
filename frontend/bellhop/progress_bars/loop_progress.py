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
    """Callback type that reports the progress of a loop to the runtime.

    The operands of a report are `done`, the number of iterations since the last report, or
    `BEGINS`; `total`, the number of all iterations, or `UNKNOWN` to keep the number reported
    before; and arrays that must be computed before the report. The result is an integer,
    which is not used.
    """

    kind = "progress"
    effects = frozenset({ordered_effect})
    n_arguments = 2

    def run(self, *leaves: Any, target: CallbackTarget) -> list[Any]:
        """Show a report of a loop that Python runs: the primitive's impl rule.

        The function of `target` is the label of the loop. Returns a list with `done` as an array.
        """
        label: Any = target.function
        done, total, *_ = leaves
        label.report_in_python(int(done), int(total))
        return [jnp.asarray(done)]

    def batch(
        self, operands: Sequence[Any], dims: Sequence[Any], *, target: CallbackTarget
    ) -> tuple[list[Any], Sequence[Any]]:
        """Batching rule: report one bar for the whole batch, with the largest total.

        The result has no batch axis.
        """
        done, total, *dependencies = operands
        if dims[1] is not None:
            total = jnp.max(total, axis=dims[1], initial=UNKNOWN)
        return self.primitive.bind(done, total, *dependencies, target=target), [None]

    def check_tangents(self, tangents: Sequence[Any], target: CallbackTarget) -> None:
        """Accept all tangents, since the operands only order the call."""

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
        """Add a report that the loop starts to the traced program.

        ``total`` is the number of iterations, possibly traced; `UNKNOWN` for a ``while`` loop.
        """
        self._report_progress(BEGINS, total)

    def advance(self, total: Any = UNKNOWN, *, after: Any) -> None:
        """Add a report of one finished iteration to the traced program.

        Args:
            total: number of iterations, possibly traced, with which the last iteration ends the
                loop; `UNKNOWN` to keep the number reported before.
            after: pytree with results of the iteration; the report is made after they are computed.
        """
        dependencies = [leaf for leaf in jax.tree.leaves(after) if isinstance(leaf, jax.Array)]
        self._report_progress(1, total, *dependencies)

    def end(self, total: Any) -> None:
        """Add a report that the loop has ended to the traced program.

        ``total`` is the number of iterations that have been executed, possibly traced.
        """
        self._report_progress(0, total)

    def _report_progress(self, done: int, total: Any, *dependencies: Any) -> None:
        counts = [jax.lax.convert_element_type(count, int) for count in (done, total)]
        _PROGRESS.primitive.bind(*counts, *dependencies, target=self._target)
