"""progress: a bar that shows how far a loop is."""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar, overload

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.control_flow.loop_progress_option import find_construct
from bellhop.control_flow.scalars import as_integer

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class TrackedIterable(Iterable[T]):
    """What a loop goes over that autograph compiles, and that is to have a bar.

    Attributes:
        iterable: what it goes over.
        description: what the bar is called.
    """

    def __init__(self, iterable: Iterable[T], description: str) -> None:
        self.iterable = iterable
        self.description = description

    def __iter__(self) -> Iterator[T]:
        # A loop that stays Python's.
        return iter(_tqdm(self.iterable, self.description))


@overload
def progress(over: int | jax.Array | np.integer[Any], desc: str = "") -> Callable[[F], F]: ...
@overload
def progress(over: Iterable[T], desc: str = "") -> Iterable[T]: ...
def progress(over: Any, desc: str = "") -> Any:
    """Show how far a loop is, with a tqdm bar.

    Of a number of iterations, it decorates the body of a loop of JAX's: ``jax.lax.scan``,
    ``fori_loop`` and ``map``.  Of an iterable, it is looped over: in a program that autograph
    converts the loop is compiled, elsewhere it is Python's and this is ``tqdm`` itself.
    ``for_loop`` and ``while_loop`` take ``progress="description"`` instead.

    The program counts, and another thread shows the count ten times a second; where standard
    error is a file, every ten seconds.  All that has ended is shown when a ``qjit`` function
    returns.  Under ``vmap`` there is one bar for the batch, under ``grad`` one for the loop and
    none for its reverse, under ``jax.shard_map`` that of one device.  If a callback raises, the
    bar stays where the loop last told how far it is.

    Args:
        over: how many iterations the loop has; or an iterable.  A loop that has more begins
            another bar, one without an end where the iterations told at once are too many for it.
        desc: what stands before the bar.

    Returns:
        a decorator of a body with any arguments; or an iterable of the same elements.

    Raises:
        TypeError: where ``over`` is neither, or what is decorated is a ``for_loop`` or
            ``while_loop``.
        ValueError: where it is negative.

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

    The bar is that of `tqdm <https://tqdm.github.io>`_.
    """
    return _progress(over, desc, _tqdm)


def track_progress(over: Any, desc: str = "") -> Any:
    """Return what ``progress`` is in code that autograph has converted."""
    return _progress(over, desc, TrackedIterable)


def _progress(over: Any, desc: str, of_iterable: Callable[[Any, str], Any]) -> Any:
    if not isinstance(desc, str):
        raise TypeError(f"progress: the description is a string, got {desc!r}.")
    if not isinstance(over, str) and np.ndim(over) == 0 and not isinstance(over, Iterable):
        return _decorate_body(over, desc)
    if isinstance(over, jax.Array | np.ndarray) and jnp.ndim(over) == 0:
        return _decorate_body(over, desc)
    return of_iterable(over, desc)


def _decorate_body(over: Any, desc: str) -> Callable[[F], F]:
    if over is None or isinstance(over, bool) or not hasattr(over, "__index__"):
        raise TypeError(
            f"progress takes a number of iterations or an iterable, got {over!r}. A loop of "
            "unknown length is bellhop.while_loop(condition, progress='description')."
        )
    total = as_integer("progress: the number of iterations", over)
    if isinstance(total, int) and total < 0:
        raise ValueError(f"progress: the number of iterations is {total}; it must not be negative.")
    # Not before: it brings tqdm, and tracing.
    from bellhop.progress_bars.loop_progress import LoopProgress

    loop = LoopProgress(desc)

    def decorate(body: F) -> F:
        if construct := find_construct(body):
            raise TypeError(
                f"progress({over!r}) is given a loop, and it counts the calls of a body. "
                f"Give the loop a description instead: bellhop.{construct}(..., progress={desc!r})."
            )

        @functools.wraps(body)
        def step(*args: Any, **kwargs: Any) -> Any:
            result = body(*args, **kwargs)
            loop.advance(total, after=result)
            return result

        return step  # type: ignore[return-value]

    return decorate


def _tqdm(iterable: Iterable[T], description: str) -> Iterable[T]:
    from tqdm.auto import tqdm

    bar: Iterable[T] = tqdm(iterable, desc=description or None)
    return bar
