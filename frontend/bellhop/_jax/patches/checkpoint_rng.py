"""Save random outcomes of ``while`` loops under ``jax.checkpoint``.

With shots, in ``jax.grad(jax.checkpoint(f))`` of ::

    f = lambda x, n: x * jax.lax.fori_loop(0, n, lambda i, c: c + circuit(), 0.0)

JAX saves the results of equations with effects, in straight-line code, ``scan`` and ``cond``.  But
it recomputes a ``while`` loop as a whole, so the derivative would belong to other samples than the
value.

Replaced: the partial evaluation rule of ``while`` under ``jax.checkpoint``.  A loop that draws
samples and has no tangent is saved as well; a loop with a tangent raises an error.
Versions: 0.10 to 0.12.
Upstream: the same rule for ``while`` as for other equations with effects.
Issue: none reported.
Installed: when the first operation that draws samples is traced.
Test: ``test_checkpoint_effects.py``.
"""

from collections.abc import Sequence
from typing import Any

from jax._src.interpreters import partial_eval  # noqa: TID251
from jax.extend.core.primitives import while_p

from bellhop._patching import patch, replace_item
from bellhop.errors import CompileError


@patch("the split of while under jax.checkpoint", "what is drawn there is drawn once")
def patch_while_checkpoint(random_effect: Any) -> None:
    """Save the results of ``while`` loops that draw samples under ``jax.checkpoint``.

    JAX would recompute such a loop for the derivative, with other samples. This patch replaces
    JAX's partial evaluation rule of ``while`` under ``jax.checkpoint``.

    Args:
        random_effect: JAX effect that marks operations that draw samples.
    """
    apply_jax_rule = partial_eval.partial_eval_jaxpr_custom_rules[while_p]

    def rule(saveable: Any, unknown: Sequence[bool], *others: Any) -> Any:
        """Save the results of a loop that draws samples; else apply JAX's rule.

        Args:
            saveable: JAX's policy, passed on.
            unknown: for each operand, whether it is unknown, that is, depends on a tangent.
            *others: JAX's further arguments; the last argument is the equation of the loop.

        Returns:
            JAX's tuple: the known equation, the recomputed equation or None, for each result
            whether it is unknown and whether it is recomputed, and the residuals.

        Raises:
            CompileError: if a loop that draws samples has a tangent.
        """
        eqn = others[-1]
        if random_effect not in eqn.effects:
            return apply_jax_rule(saveable, unknown, *others)
        if any(unknown):
            raise CompileError(
                "jax.checkpoint: a loop with a dynamic trip count that draws outcomes cannot be "
                "differentiated, since recomputing it would draw other outcomes. Use a static "
                "trip count, or move the loop out of jax.checkpoint."
            )
        n = len(eqn.outvars)
        return eqn, None, [False] * n, [False] * n, []

    replace_item(partial_eval.partial_eval_jaxpr_custom_rules, while_p, rule)
