"""The tokens of a failed run on several devices are not passed to the next run.

Replaced: ``ExecuteReplicated._handle_token_bufs``, which keeps the tokens of a failed run too; then
every later run with such an effect fails with the same error.
Versions: 0.10 and 0.11.
Upstream: JAX checks the tokens before it keeps them.
Installed: when one of our calls is first lowered in a plain ``jax.jit``.
Test: ``test_partitioned_programs.py``.
"""

from typing import Any

import jax
from jax._src import dispatch  # noqa: TID251
from jax._src.interpreters import pxla  # noqa: TID251

from bellhop._jax.patches import original, patch
from bellhop._jax.private import our_effects


@patch("ExecuteReplicated._handle_token_bufs", "runs after a failed one on several devices work")
def drop_tokens_of_failures() -> None:
    """Raise the error of a run on several devices before its tokens are kept for the next."""
    take_over = original(pxla.ExecuteReplicated, "_handle_token_bufs")

    def take_over_good_ones(run: Any, token_buffers: Any, runtime_tokens: Any) -> None:
        if any(isinstance(effect, our_effects()) for effect in run.ordered_effects):
            try:
                jax.block_until_ready(token_buffers)
            except Exception:
                for effect in run.ordered_effects:
                    dispatch.runtime_tokens.current_tokens.pop(effect, None)
                raise
        take_over(run, token_buffers, runtime_tokens)

    pxla.ExecuteReplicated._handle_token_bufs = take_over_good_ones  # type: ignore[method-assign]
