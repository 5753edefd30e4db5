"""`progress`: progress bars of loops."""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar, overload

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.base.public_function import public_function
from bellhop.control_flow.loop_progress_option import find_construct
from bellhop.control_flow.scalars import as_integer

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class TrackedIterable(Iterable[T]):
    """An iterable with a progress bar, for a ``for`` statement that autograph compiles.

    ``progress`` returns it in converted code. If autograph does not compile the loop, iterating
    shows a ``tqdm`` bar.

    Attributes:
        iterable: the user's iterable.
        description: text before the bar.
    """

    def __init__(self, iterable: Iterable[T], description: str) -> None:
        self.iterable = iterable
        self.description = description

    def __iter__(self) -> Iterator[T]:
        # For loops that autograph does not compile.
        return iter(_tqdm(self.iterable, self.description))


@overload
def progress(over: int | jax.Array | np.integer[Any], desc: str = "") -> Callable[[F], F]: ...
@overload
def progress(over: Iterable[T], desc: str = "") -> Iterable[T]: ...
@public_function
def progress(over: Any, desc: str = "") -> Any:
    """Show the progress of a loop with a `tqdm <https://tqdm.github.io>`_ bar.

    With a number of iterations, it decorates the body of ``jax.lax.scan``, ``fori_loop`` or
    ``map``. With an iterable, it wraps the iterable of a ``for`` statement: in a program that
    autograph converts, the loop is compiled; elsewhere Python runs the loop and this is ``tqdm``
    itself. ``for_loop`` and ``while_loop`` have an option ``progress="description"`` instead.

    The program counts iterations, and another thread updates the bar ten times a second, or every
    ten seconds if standard error is a file. Finished bars are shown when a ``qjit`` function
    returns. Under ``vmap`` there is one bar for the batch, under ``grad`` one for the loop and none
    for its reverse, under ``jax.shard_map`` the bar of one device. If a callback raises, the bar
    stops at the last update.

    Args:
        over: number of iterations of the loop, or an iterable. A loop with more iterations starts
            another bar, or a bar without a total if a single update exceeds it.
        desc: text before the bar.

    Returns:
        a decorator of a body with any arguments; or an iterable of the same elements.

    Raises:
        TypeError: if ``over`` is neither an integer nor an iterable, or the decorated function is a
            ``for_loop`` or ``while_loop``; and if ``desc`` is not a string.
        ValueError: if ``over`` is negative.

    Example:
        >>> import bellhop, jax, jax.numpy as jnp
        >>> @bellhop.qjit
        ... def mean(xs):
        ...     @bellhop.progress(len(xs), "mean")
        ...     def step(total, x):
        ...         return total + x, None
        ...     return jax.lax.scan(step, 0.0, xs)[0] / len(xs)
        >>> float(mean(jnp.arange(4.0)))
        1.5
    """
    return _progress(over, desc, _tqdm)


def track_progress(over: Any, desc: str = "") -> Any:
    """Show the progress of a loop in converted code, like ``progress``.

    Converted code calls it in place of ``progress``.

    Args:
        over: number of iterations of the loop, or an iterable.
        desc: text before the bar.

    Returns:
        a decorator of a loop body for a number; a `TrackedIterable`, over which a compiled loop can
        iterate, for an iterable.
    """
    return _progress(over, desc, TrackedIterable)


def _progress(over: Any, desc: str, wrap_iterable: Callable[[Any, str], Any]) -> Any:
    """Return a loop body's decorator if `over` is a number, else an iterable with a bar.

    Args:
        over: number of iterations, or an iterable.
        desc: text before the bar.
        wrap_iterable: takes an iterable and `desc`; returns an iterable that shows the bar.
    """
    if not isinstance(desc, str):
        raise TypeError(f"progress: expected a string as description, got {desc!r}.")
    if not isinstance(over, str) and np.ndim(over) == 0 and not isinstance(over, Iterable):
        return _decorate_body(over, desc)
    if isinstance(over, jax.Array | np.ndarray) and jnp.ndim(over) == 0:
        return _decorate_body(over, desc)
    return wrap_iterable(over, desc)


def _decorate_body(over: Any, desc: str) -> Callable[[F], F]:
    """Return a decorator of a loop body that advances a bar in each iteration.

    Args:
        over: number of iterations of the loop, an integer or a traced integer.
        desc: text before the bar.

    Raises:
        TypeError: if `over` is not an integer.
        ValueError: if `over` is negative.
    """
    if over is None or isinstance(over, bool) or not hasattr(over, "__index__"):
        raise TypeError(
            f"progress takes a number of iterations or an iterable, got {over!r}. For a loop of "
            "unknown length use bellhop.while_loop(condition, progress='description')."
        )
    total = as_integer("progress: the number of iterations", over)
    if isinstance(total, int) and total < 0:
        raise ValueError(f"progress: expected at least 0 iterations, got {total}.")
    # Imported late, since it imports tqdm and tracing.
    from bellhop.progress_bars.loop_progress import LoopProgress

    loop = LoopProgress(desc)

    def decorate(body: F) -> F:
        """Wrap a loop's body to advance the bar after each call.

        Raises:
            TypeError: if `body` is a ``for_loop`` or ``while_loop`` itself.
        """
        if construct := find_construct(body):
            raise TypeError(
                f"progress({over!r}) decorates a loop, expected the body of a loop. "
                "Pass the description to the loop instead: "
                f"bellhop.{construct}(..., progress={desc!r})."
            )

        @functools.wraps(body)
        def step(*args: Any, **kwargs: Any) -> Any:
            """Call the body, advance the bar, and return the body's result."""
            result = body(*args, **kwargs)
            loop.advance(total, after=result)
            return result

        return step  # type: ignore[return-value]

    return decorate


def _tqdm(iterable: Iterable[T], description: str) -> Iterable[T]:
    """Wrap an iterable in a ``tqdm`` bar."""
    from tqdm.auto import tqdm

    bar: Iterable[T] = tqdm(iterable, desc=description or None)
    return bar
