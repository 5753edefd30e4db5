"""The option ``progress`` of loops."""

from collections.abc import Callable, Iterable, Iterator, Sized
from typing import TYPE_CHECKING, Any, TypeVar

import jax

from bellhop._jax.private import trace_state_clean
from bellhop.control_flow.eager_mode import is_recording

if TYPE_CHECKING:
    from bellhop.progress_bars.loop_progress import LoopProgress


T = TypeVar("T")

_CONSTRUCT = "__bellhop_loop__"


def make_loop_progress(description: str | None) -> "LoopProgress | None":
    """Create the progress bar that a loop's option ``progress`` requests.

    Args:
        description: value of the option: text before the bar, or None.

    Returns:
        the bar, which the loop advances; None without a description.

    Raises:
        TypeError: if the description is not a string.
    """
    if description is None:
        return None
    if not isinstance(description, str):
        raise TypeError(
            f"progress: expected a string, the description of the bar, got {description!r}."
        )
    # Imported late, since it imports tqdm.
    from bellhop.progress_bars.loop_progress import LoopProgress

    return LoopProgress(description)


def wrap_loop(construct: str, loop: Callable[..., Any], progress: str | None) -> Callable[..., Any]:
    """Mark a function as a loop, and compile a loop with a progress bar as one program.

    The mark is an attribute that `find_construct` reads, so that ``progress`` rejects a loop in
    place of a loop's body.

    Args:
        construct: name of the loop construct, such as ``for_loop``.
        loop: takes the initial and returns the final carried values.
        progress: description of the loop's progress bar; None for no bar.

    Returns:
        `loop` itself; with a progress bar a wrapper of it, which is compiled as one ``jax.jit``
        when it is called outside of programs.
    """
    decorated = loop if progress is None else _compile_as_one_program(loop)
    setattr(decorated, _CONSTRUCT, construct)
    return decorated


def report_iterations(items: Iterable[T], progress: str | None) -> Iterator[T]:
    """Iterate over the items of a loop that Python executes, and advance its progress bar.

    Args:
        items: an item for each iteration; the bar shows their number if they have a length.
        progress: description of the progress bar; None for no bar.

    Yields:
        the items.
    """
    bar = make_loop_progress(progress)
    if bar is None:
        yield from items
        return
    if isinstance(items, Sized):
        bar.begin(len(items))
    else:
        bar.begin()
    done = 0
    try:
        for item in items:
            yield item
            done += 1
            bar.advance(after=())
    finally:
        bar.end(done)


def find_construct(function: Callable[..., Any]) -> str | None:
    """Return the name in the mark of `wrap_loop`, such as ``for_loop``; None if unmarked."""
    return getattr(function, _CONSTRUCT, None)


def _compile_as_one_program(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a loop with a progress bar, so that ``jax.jit`` compiles it outside of programs."""

    def run(*init: Any) -> Any:
        """Run the loop as one ``jax.jit`` program, wait for it, and show the finished bar.

        While JAX is tracing, and while PennyLane records a tape, the loop is called without
        ``jax.jit``.
        """
        if not trace_state_clean() or is_recording():
            return loop(*init)
        from bellhop.progress_bars.bars import show_bars

        try:
            return jax.block_until_ready(jax.jit(loop)(*init))
        finally:
            show_bars()

    return run
