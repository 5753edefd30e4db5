"""What a ``while`` draws under ``jax.checkpoint`` is drawn once.

With shots, in ``jax.grad(jax.checkpoint(f))`` of ::

    f = lambda x, n: x * jax.lax.fori_loop(0, n, lambda i, c: c + circuit(), 0.0)

JAX saves what is drawn in straight lines, in ``scan`` and in ``cond``, since it computes no
equation with effects again.  Only a ``while`` it computes again as a whole, for the derivative,
which would be that of other samples than the value is made of.

Replaced: the rule by which ``jax.checkpoint`` splits a ``while``.  One that draws and has no
tangent is saved, too; one that has a tangent is refused.
Versions: 0.10 to 0.12.
Upstream: the same rule for a ``while`` as for other equations with effects.
Installed: when something that draws is first traced.
Test: ``test_checkpoint_effects.py``.
"""

from collections.abc import Sequence
from typing import Any

from jax._src.interpreters import partial_eval  # noqa: TID251
from jax.extend.core.primitives import while_p

from bellhop._patching import patch
from bellhop.errors import CompileError


@patch("the split of while under jax.checkpoint", "what is drawn there is drawn once")
def draw_once_in_checkpoints(random_effect: Any) -> None:
    """Save the results of a ``while`` that draws."""
    by_jax = partial_eval.partial_eval_jaxpr_custom_rules[while_p]

    def rule(saveable: Any, unknown: Sequence[bool], *others: Any) -> Any:
        eqn = others[-1]
        if random_effect not in eqn.effects:
            return by_jax(saveable, unknown, *others)
        if any(unknown):
            raise CompileError(
                "a loop whose length the program computes draws outcomes under jax.checkpoint and "
                "is differentiated; it would draw others when it is computed again. Give it a "
                "length that is known, or put jax.checkpoint around less."
            )
        n = len(eqn.outvars)
        return eqn, None, [False] * n, [False] * n, []

    partial_eval.partial_eval_jaxpr_custom_rules[while_p] = rule
