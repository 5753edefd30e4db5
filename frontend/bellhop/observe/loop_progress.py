"""The primitive that tells how far a loop is."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching
from jax.interpreters import partial_eval as pe

from bellhop._source import user_site
from bellhop.callbacks.primitive import (
    ordered_effect,
    register_callback,
)
from bellhop.callbacks.target import CallbackTarget
from bellhop.observe.bars import LoopLabel

# What stands for the number of an iteration, in runtime/contract.toml.
BEGINS, NEXT = -1, -2
# What stands for how many there are; what the loop began with stays.
UNKNOWN = -1

# index, total, anchors... -> index of the iteration to tell of next
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
            copies=True,
        )

    def begin(self, total: Any = UNKNOWN) -> Any:
        """Tell that the loop begins.

        Args:
            total: how many iterations there are, if that is known.

        Returns:
            the iteration to tell of next, for ``advance``.
        """
        return self._tell(BEGINS, total)

    def advance(self, next_told: Any, index: Any, after: Any) -> Any:
        """Tell that an iteration is done, if it is one to tell of.

        Args:
            next_told: the iteration to tell of.
            index: the number of this one, from 0 on.
            after: a pytree that it returned, among other things.

        Returns:
            the iteration to tell of next.
        """
        return jax.lax.cond(
            index >= next_told,
            lambda: self._tell(index, UNKNOWN, *_arrays(after)),
            lambda: next_told,
        )

    def advance_by_one(self, total: Any, after: Any) -> None:
        """Tell that one more iteration is done; the last one ends the loop."""
        self._tell(NEXT, total, *_arrays(after))

    def end(self, count: Any) -> None:
        """Tell that the loop has ended, after so many iterations."""
        self._tell(count - 1, count)

    def _tell(self, index: Any, total: Any, *anchors: Any) -> Any:
        numbers = [jax.lax.convert_element_type(number, int) for number in (index, total)]
        return progress_p.bind(*numbers, *anchors, target=self._target)[0]


def _arrays(tree: Any) -> list[jax.Array]:
    return [leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, jax.Array)]


def _batch(
    operands: Sequence[Any], dims: Sequence[Any], *, target: CallbackTarget
) -> tuple[list[Any], list[Any]]:
    """Show one bar for the whole batch: that of the element that is furthest."""
    numbers = [
        number if dim is None else jnp.max(number, axis=dim, initial=BEGINS)
        for number, dim in zip(operands[:2], dims[:2], strict=True)
    ]
    return progress_p.bind(*numbers, *operands[2:], target=target), [None]


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
def _now(index: Any, total: Any, *_: Any, target: CallbackTarget) -> list[Any]:
    """Show it where no program runs, as in a loop of Python's."""
    label: Any = target.function
    label.advance_in_python(int(total))
    return [jnp.asarray(index)]
