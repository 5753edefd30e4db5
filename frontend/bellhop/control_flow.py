"""Loops that are compiled as loops, around circuits and inside them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bellhop.tracing import current_circuit


def for_loop(lower_bound: Any, upper_bound: Any, step: Any = 1) -> Callable[..., Any]:
    """Compile a loop over ``range(lower_bound, upper_bound, step)``.

    Args:
        lower_bound: first value of the index, an integer.
        upper_bound: the index stays below it (above it, for a negative step).
        step: added to the index after each iteration; not zero.

    Returns:
        a decorator for the body, ``body(i, *carried)``, which returns the carried values of
        the next iteration (one value, a tuple of several, or None without any).  The decorated
        function takes the first carried values and returns the last.  Inside a QNode the body
        may apply gates.

    Raises:
        ValueError: for a step that is zero.
        TypeError: where the body changes the structure, shape or dtype of what it carries.

    Example:
        >>> import bellhop
        >>> @bellhop.qjit
        ... def power(x, n):
        ...     return bellhop.for_loop(0, n, 1)(lambda i, y: y * x)(1.0)
        >>> power(2.0, 10)
        Array(1024., dtype=float64)

    The interface is that of PennyLane's and Catalyst's ``for_loop``.
    """
    bounds = (lower_bound, upper_bound, step)
    is_static = all(isinstance(bound, int | np.integer) for bound in bounds)
    if is_static and step == 0:
        raise ValueError("for_loop: the step must not be zero.")

    def decorate(body: Callable[..., Any]) -> Callable[..., Any]:
        def loop(*init: Any) -> Any:
            carried = jax.tree.map(jnp.asarray, init)
            circuit = current_circuit()
            trips = len(range(*map(int, bounds))) if is_static else None
            if circuit is not None:
                carried = circuit.loop(trips, bounds, body, carried)
            else:
                carried = _classical(trips, bounds, body, carried)
            return _unwrap(carried)

        return loop

    return decorate


def as_carried(result: Any, carried: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what a body returned as the tuple of carried values that it stands for."""
    if len(carried) == 0:
        return ()
    values = (result,) if len(carried) == 1 else tuple(result)
    observed, expected = jax.tree.structure(values), jax.tree.structure(carried)
    if observed != expected:
        raise TypeError(
            f"for_loop: the body must return what it carries, of structure {expected}; it "
            f"returned {observed}."
        )
    return jax.tree.map(lambda new, old: jnp.asarray(new).astype(old.dtype), values, carried)


def index_at(trip: Any, bounds: tuple[Any, Any, Any]) -> Any:
    """Return the loop index in iteration number ``trip``."""
    lower, _, step = bounds
    return lower + trip * step


def trip_count(bounds: tuple[Any, Any, Any]) -> Any:
    """Return how many iterations dynamic bounds make."""
    lower, upper, step = (jnp.asarray(bound) for bound in bounds)
    return jnp.maximum(0, (upper - lower + step - jnp.sign(step)) // step)


def _unwrap(carried: tuple[Any, ...]) -> Any:
    if len(carried) == 0:
        return None
    return carried[0] if len(carried) == 1 else carried


def _classical(
    trips: int | None, bounds: tuple[Any, Any, Any], body: Callable[..., Any], carried: Any
) -> Any:
    def step(trip: Any, carried: Any) -> Any:
        return as_carried(body(index_at(trip, bounds), *carried), carried)

    if trips is None:
        return jax.lax.fori_loop(0, trip_count(bounds), step, carried)
    # A scan, unlike a while loop, has a derivative in reverse.
    return jax.lax.scan(
        lambda carried, trip: (step(trip, carried), None), carried, jnp.arange(trips)
    )[0]
