"""The primitive that tells how far a loop is."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching
from jax.interpreters import partial_eval as pe

from bellhop.base.source import user_site
from bellhop.callbacks.primitive import (
    ordered_effect,
    register_callback,
)
from bellhop.compiler.target import CallbackTarget
from bellhop.progress_bars.bars import LoopLabel

# What stands for how many iterations are done, and how many there are, in runtime/contract.toml.
BEGINS = UNKNOWN = -1

# done, total, anchors... -> how many iterations to do before the next one
progress_p = Primitive("bellhop_progress")


class LoopProgress:
    """One loop of a program, which tells how far it is.

    Args:
        description: what its bar is called.
    """

    def __init__(self, description: str) -> None:
        self._target = CallbackTarget(
            flavour="progress",
            function=LoopLabel(description),
            in_tree=jax.tree.structure(((0, 0), {})),
            out_tree=jax.tree.structure(0),
            result_avals=(ShapedArray((), jax.dtypes.canonicalize_dtype(int)),),
            site=user_site(),
        )

    def begin(self, total: Any = UNKNOWN) -> None:
        """Tell that the loop begins, and how many iterations it has, if that is known."""
        self._tell(BEGINS, total)

    def advance(self, total: Any = UNKNOWN, *, after: Any) -> None:
        """Tell that one more iteration is done.

        Args:
            total: how many there are, if that is known; the last one ends the loop.
            after: a pytree that it returned, among other things.
        """
        anchors = [leaf for leaf in jax.tree.leaves(after) if isinstance(leaf, jax.Array)]
        self._tell(1, total, *anchors)

    def end(self, total: Any) -> None:
        """Tell that the loop has ended, after so many iterations."""
        self._tell(0, total)

    def _tell(self, done: int, total: Any, *anchors: Any) -> None:
        numbers = [jax.lax.convert_element_type(number, int) for number in (done, total)]
        progress_p.bind(*numbers, *anchors, target=self._target)


def _batch(
    operands: Sequence[Any], dims: Sequence[Any], *, target: CallbackTarget
) -> tuple[list[Any], list[Any]]:
    """Show one bar for the whole batch: that of the element that is furthest."""
    done, total, *anchors = operands
    if dims[1] is not None:
        total = jnp.max(total, axis=dims[1], initial=UNKNOWN)
    return progress_p.bind(done, total, *anchors, target=target), [None]


def _jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, target: CallbackTarget
) -> tuple[list[Any], list[Any]]:
    del tangents
    (told,) = progress_p.bind(*primals, target=target)
    return [told], [ad.Zero(jax.typeof(told).to_tangent_aval())]


def _partial_eval(
    saveable: Any, unknown: Sequence[bool], instantiated: Sequence[bool], eqn: Any
) -> tuple[Any, ...]:
    """Under ``jax.checkpoint``, tell of the forward pass alone."""
    del saveable
    if any(unknown):
        residuals = [var for var, inst in zip(eqn.invars, instantiated, strict=True) if not inst]
        return None, eqn, [True], [True], residuals
    return eqn, None, [False], [False], []


register_callback(progress_p, "progress", {ordered_effect}, declared=2)
batching.primitive_batchers[progress_p] = _batch
ad.primitive_jvps[progress_p] = _jvp
pe.partial_eval_jaxpr_custom_rules[progress_p] = _partial_eval


@progress_p.def_impl
def _now(done: Any, total: Any, *_: Any, target: CallbackTarget) -> list[Any]:
    """Show it where no program runs, as in a loop of Python's."""
    label: Any = target.function
    label.advance_in_python(int(total))
    return [jnp.asarray(done)]
