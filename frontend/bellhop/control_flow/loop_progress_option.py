"""Loops that show how far they are."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax

from bellhop._jax.private import trace_state_clean

if TYPE_CHECKING:
    from bellhop.progress_bars.loop_progress import LoopProgress


_CONSTRUCT = "__bellhop_loop__"


def make_loop_progress(description: str | None) -> "LoopProgress | None":
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


def wrap_loop(construct: str, loop: Callable[..., Any], progress: str | None) -> Callable[..., Any]:
    """Return a loop as the decorator of a body returns it.

    Args:
        construct: what the user called.
        loop: a function of what is carried.
        progress: the description of its bar; None for no bar.
    """
    decorated = loop if progress is None else _compile_as_one_program(loop)
    setattr(decorated, _CONSTRUCT, construct)
    return decorated


def find_construct(function: Callable[..., Any]) -> str | None:
    """Return what the user called to make a loop; None for other functions."""
    return getattr(function, _CONSTRUCT, None)


def _compile_as_one_program(loop: Callable[..., Any]) -> Callable[..., Any]:
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
