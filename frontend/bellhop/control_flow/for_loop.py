"""Loops over a range, compiled as loops."""

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import jax
import jax.numpy as jnp

from bellhop.base.source import describe_derived_function
from bellhop.base.types import Operand
from bellhop.control_flow.eager_mode import is_interpreted, is_unrolling
from bellhop.control_flow.loop_carry import (
    as_carry_arrays,
    as_carry_values,
    check_no_resizing,
    unwrap_carry,
)
from bellhop.control_flow.loop_progress_option import make_loop_progress, wrap_loop
from bellhop.control_flow.scalars import as_integer
from bellhop.control_flow.trace_body import TracedStep, trace_step
from bellhop.tracing.state import current_gate_recorder

Bounds = tuple[Any, Any, Any]
P = ParamSpec("P")
R = TypeVar("R")


def for_loop(
    lower_bound: Any,
    upper_bound: Any = None,
    step: Any = 1,
    *,
    progress: str | None = None,
    allow_array_resizing: bool = False,
) -> Callable[[Callable[Concatenate[Any, P], R]], Callable[P, R]]:
    """Compile a loop over ``range(lower_bound, upper_bound, step)``.

    Args:
        lower_bound: first value of the index, an integer.
        upper_bound: the index stays below it (above it, for a negative step).  Without it, the
            loop is over ``range(lower_bound)``.
        step: added to the index after each iteration; not zero.  A step of zero that the
            program computes makes no iteration.
        progress: what a bar is called that shows how far the loop is, as ``progress`` says; None
            for no bar.
        allow_array_resizing: for PennyLane's interface; arrays have one shape here.

    Returns:
        a decorator for the body, ``body(i, *carried)``, which returns the carried values of
        the next iteration (one value, a tuple of several, or None without any).  The decorated
        function takes the first carried values and returns the last.  Inside a QNode the body
        may apply gates.  Values are carried in the type that JAX promotes the first and the
        returned ones to.  Where no program is traced, and in a QNode that is not compiled, the
        loop is Python's, of any values.

    Raises:
        ValueError: for a step that is zero.
        TypeError: where a bound is no integer, or the body changes the structure or a shape of
            what it carries.

    Example:
        >>> import bellhop
        >>> @bellhop.qjit
        ... def power(x, n):
        ...     return bellhop.for_loop(0, n, 1)(lambda i, y: y * x)(1.0)
        >>> power(2.0, 10)
        Array(1024., dtype=float64)

    The interface is that of PennyLane's and Catalyst's ``for_loop``.
    """
    check_no_resizing("for_loop", allow_array_resizing)
    if upper_bound is None:
        lower_bound, upper_bound = 0, lower_bound
    bounds = (
        as_integer("for_loop: the lower bound", lower_bound),
        as_integer("for_loop: the upper bound", upper_bound),
        as_integer("for_loop: the step", step),
    )
    is_static = all(isinstance(bound, int) for bound in bounds)
    if isinstance(bounds[2], int) and bounds[2] == 0:
        raise ValueError("for_loop: the step must not be zero.")

    def decorate(body: Callable[..., Any]) -> Callable[..., Any]:
        what = describe_derived_function("for_loop", body)

        def loop(*init: Any) -> Any:
            if is_interpreted() or (is_static and is_unrolling()):
                carried = init
                for index in range(*bounds):
                    carried = as_carry_values(what, body(index, *carried), init)
                return unwrap_carry(carried)

            def run_body(carried: tuple[Any, ...], iteration: Operand) -> tuple[Any, ...]:
                return as_carry_arrays(what, body(_loop_index(iteration, bounds), *carried), init)

            circuit = current_gate_recorder()
            count = len(range(*bounds)) if is_static else count_iterations(bounds)
            run = run_for_loop if circuit is None else circuit.for_loop
            bar = make_loop_progress(progress)
            if bar is None:
                return unwrap_carry(run(count, run_body, init))

            def run_and_show(carried: tuple[Any, ...], iteration: Operand) -> tuple[Any, ...]:
                after = run_body(carried, iteration)
                bar.advance(after=after)
                return after

            bar.begin(count)
            last = run(count, run_and_show, init)
            bar.end(count)
            return unwrap_carry(last)

        return wrap_loop("for_loop", loop, progress)

    return decorate


def _loop_index(iteration: Operand, bounds: Bounds) -> Any:
    lower, _, step = bounds
    return range_element(iteration, lower, step)


def range_element(iteration: Operand, lower: Any, step: Any) -> Any:
    """Return an element of a range by its number, with no equations where that is the number."""
    stride = iteration if isinstance(step, int) and step == 1 else iteration * step
    return stride if isinstance(lower, int) and lower == 0 else lower + stride


def count_iterations(bounds: Bounds) -> Any:
    """Return how long a range is; none, for a step of 0.

    Args:
        bounds: as ``as_integer`` returns them.
    """
    lower, upper, step = (jnp.asarray(bound) for bound in bounds)
    if isinstance(bounds[2], int) and bounds[2] == 1:
        # Not for its value: a division takes longer to compile than the loop.
        distance = upper if isinstance(bounds[0], int) and bounds[0] == 0 else upper - lower
        return jnp.maximum(0, distance)
    ascends = step > 0
    is_empty = jnp.where(ascends, upper <= lower, upper >= lower) | (step == 0)
    # The distance of two integers may be too long for one with a sign.
    unsigned = f"u{lower.dtype}"
    distance = jnp.where(ascends, upper - lower, lower - upper).astype(unsigned)
    stride = jnp.where(ascends, step, -step).astype(unsigned)
    count = (distance - 1) // jnp.maximum(stride, 1) + 1
    return jnp.where(is_empty, 0, count.astype(lower.dtype))


def run_scan(step: TracedStep, carried: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """Run so many iterations; a scan, unlike a while loop, has a derivative in reverse."""
    return jax.lax.scan(lambda *args: step(*args), carried, jnp.arange(count))[0]


def run_for_loop(
    count: Any,
    body: Callable[..., Any],
    carried: tuple[Any, ...],
    run: Callable[[TracedStep, tuple[Any, ...], int], tuple[Any, ...]] = run_scan,
) -> tuple[Any, ...]:
    """Run a loop that is not part of a circuit; the first arguments are those of a circuit's.

    Args:
        count: how many iterations.
        body: one of them.
        carried: what the first one takes.
        run: runs so many iterations as are known.
    """
    carried, step = trace_step("for_loop", lambda *args: (body(*args), ()), carried, jnp.asarray(0))
    if isinstance(count, int):
        return run(step, carried, count)
    return jax.lax.fori_loop(0, count, lambda i, carried: step(carried, i)[0], carried)
