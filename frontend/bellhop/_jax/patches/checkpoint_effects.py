"""Keep effects under ``jax.checkpoint`` even if all results are unused.

For ``f = jax.checkpoint(lambda x: (tap(print, 3), x)[1])`` with an unused result::

    let _ = remat2[jaxpr={ tap 3 ... }] x in ...    removed as dead code by JAX's rule

Replaced: the dead code rule of ``remat_p``, whose test for effects is inverted.
Versions: 0.10 and 0.11.
Upstream: jax 0.12, once Bellhop no longer supports older versions.
Issue: none; fixed in jax 0.12.
Installed: when the first call with an effect is traced.
Test: ``test_checkpoint_effects.py``.
"""

from collections.abc import Sequence
from typing import Any

from jax._src.ad_checkpoint import remat_p  # noqa: TID251
from jax._src.interpreters import partial_eval  # noqa: TID251

from bellhop._patching import original, patch, replace_item


@patch("dead code under jax.checkpoint", "effects whose results nobody uses are kept")
def keep_effects_under_checkpoint() -> None:
    """Keep ``jax.checkpoint`` equations that have effects but no used result.

    Replaces JAX's dead code rule of the primitive.
    """
    apply_jax_rule = original(partial_eval, "dce_rules")[remat_p]

    # Rules take more arguments since jax 0.12.
    def rule(used: list[bool], eqn: Any, *more: Any) -> tuple[Sequence[bool], Any]:
        """Apply JAX's dead code rule, but keep an equation with effects unchanged.

        Args:
            used: for each result, whether it is used.
            eqn: the ``jax.checkpoint`` equation.
            *more: further arguments of the dead code rule.

        Returns:
            for each operand, whether it is used; and the new equation, or None to remove it.
        """
        found = apply_jax_rule(used, eqn, *more)
        if found[1] is None and partial_eval.has_effects(eqn):
            return [True] * len(eqn.invars), eqn
        return found

    replace_item(partial_eval.dce_rules, remat_p, rule)
