"""Effects under ``jax.checkpoint`` are kept where nothing else of the function is used.

For ``f = jax.checkpoint(lambda x: (print_of(3), x)[1])`` whose result nobody uses::

    let _ = remat2[jaxpr={ print_of 3 ... }] x in ...    removed as dead code by JAX's rule

Replaced: the rule of ``remat_p`` for dead code, which has the test for effects the wrong way round.
Versions: 0.10 and 0.11; 0.12 has it right.
Upstream: mended there.
Installed: by the first call with an effect that is traced.
Test: ``test_checkpoint_effects.py``.
"""

from collections.abc import Sequence
from typing import Any

from jax._src.ad_checkpoint import remat_p  # noqa: TID251
from jax._src.interpreters import partial_eval  # noqa: TID251

from bellhop._patching import original, patch


@patch("dead code under jax.checkpoint", "effects whose results nobody uses are kept")
def keep_effects_under_checkpoint() -> None:
    """Keep an equation with effects whole, where JAX would drop it."""
    by_jax = original(partial_eval, "dce_rules")[remat_p]

    # Since jax 0.12 rules take more.
    def rule(used: list[bool], eqn: Any, *more: Any) -> tuple[Sequence[bool], Any]:
        found = by_jax(used, eqn, *more)
        if found[1] is None and partial_eval.has_effects(eqn):
            return [True] * len(eqn.invars), eqn
        return found

    partial_eval.dce_rules[remat_p] = rule
