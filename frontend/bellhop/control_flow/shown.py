"""Loops that show how far they are."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax

from bellhop._jax.private import trace_state_clean

if TYPE_CHECKING:
    from bellhop.progress_bars.loop_progress import LoopProgress


def loop_progress(description: str | None) -> "LoopProgress | None":
    """Return what a loop says how far it is to, or None without a description.

    Raises:
        TypeError: where the description is no string.
    """
    if description is None:
        return None
    if not isinstance(description, str):
        raise TypeError(f"progress is the description of a bar, a string; got {description!r}.")
    # Not before: it brings tqdm.
    from bellhop.progress_bars.loop_progress import LoopProgress

    return LoopProgress(description)


def in_one_program(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Return a loop that is one program where it is none of a program's: one run, one bar."""

    def run(*init: Any) -> Any:
        if not trace_state_clean():
            return loop(*init)
        from bellhop.progress_bars.bars import show_bars

        try:
            return jax.block_until_ready(jax.jit(loop)(*init))
        finally:
            show_bars()

    return run
