"""Compiled loops over a range."""

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import jax
import jax.numpy as jnp

from bellhop.arguments.accepted_arguments import check_parameters, format_count, get_decorated_body
from bellhop.arguments.mutable_references import check_no_carried_references
from bellhop.base.public_function import hide_internal_frames, public_function
from bellhop.base.source import describe_derived_function, function_name, set_function_name
from bellhop.base.types import Operand
from bellhop.control_flow.eager_mode import is_eager, is_unrolling
from bellhop.control_flow.loop_carry import (
    as_carry_arrays,
    as_carry_values,
    check_no_resizing,
    unwrap_carry,
)
from bellhop.control_flow.loop_progress_option import (
    make_loop_progress,
    report_iterations,
    wrap_loop,
)
from bellhop.control_flow.scalars import as_integer
from bellhop.control_flow.trace_body import TracedStep, trace_step
from bellhop.tracing.state import current_gate_recorder

Bounds = tuple[Any, Any, Any]
P = ParamSpec("P")
R = TypeVar("R")
_USAGE = (
    "Pass the body to the loop, and then the initial values: "
    "bellhop.for_loop(lower, upper, 1)(body)(*init)."
)


@public_function(usage=_USAGE)
def for_loop(
    lower_bound: Any,
    upper_bound: Any = None,
    step: Any = 1,
    *,
    progress: str | None = None,
    allow_array_resizing: bool = False,
) -> Callable[[Callable[Concatenate[Any, P], R]], Callable[P, R]]:
    """Compile a loop over ``range(lower_bound, upper_bound, step)``.

    The interface is the same as in PennyLane and Catalyst.

    Args:
        lower_bound: first index, an integer.
        upper_bound: exclusive upper bound (lower bound for a negative step). If omitted, the loop
            is over ``range(lower_bound)``.
        step: increment of the index, a nonzero integer. A dynamic step of zero makes no iteration.
        progress: description of a progress bar, as in ``progress``; None for no bar.
        allow_array_resizing: option for compatibility with PennyLane; must be False, since arrays
            have static shapes.

    Returns:
        a decorator for the body, ``body(i, *carried)``, which returns the carried values of the
        next iteration (one value, a tuple of several, or None without any). The decorated function
        takes the initial carried values and returns the final values. Inside a QNode the body may
        apply gates. Carried values have the promoted type of initial and returned values. Outside
        of programs, and in uncompiled QNodes, Python runs the loop with any values.

    Raises:
        ValueError: if the step is zero.
        TypeError: if a bound is not an integer, the body does not take the index and the carried
            values, or the body changes the structure or a shape of its carried values; if an
            initial value is a mutable reference.
        NotImplementedError: if ``allow_array_resizing`` is set.

    Example:
        >>> import bellhop
        >>> @bellhop.qjit
        ... def power(x, n):
        ...     return bellhop.for_loop(0, n, 1)(lambda i, y: y * x)(1.0)
        >>> power(2.0, 10)
        Array(1024., dtype=float64)
    """
    check_no_resizing("for_loop", allow_array_resizing)
    if callable(lower_bound):
        raise TypeError(
            f"for_loop: got the function '{function_name(lower_bound)}', expected the bounds of "
            "the loop. Call for_loop with the bounds first: @bellhop.for_loop(0, n, 1)."
        )
    if callable(upper_bound) or callable(step):
        raise TypeError(
            f"for_loop: got a function as {'step' if callable(step) else 'upper_bound'}, expected "
            f"an integer. {_USAGE}"
        )
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

    def decorate(*given: Any) -> Callable[..., Any]:
        """Wrap ``body(i, *carried)`` in a function that runs the loop.

        Args:
            *given: the body; any other arguments raise a `TypeError`.
        """
        body = get_decorated_body("for_loop", given, "@bellhop.for_loop(0, n, 1)")
        label = describe_derived_function("for_loop", body)

        @hide_internal_frames
        def loop(*init: Any) -> Any:
            """Run the loop from initial carried values; return the final carried values."""
            passed = f"the index and {format_count(len(init), 'carried value')}"
            check_parameters(label, "the body", body, 1 + len(init), passed)
            if is_eager() or (is_static and is_unrolling()):
                carried = init
                for index in report_iterations(range(*bounds), progress):
                    carried = as_carry_values(label, body(index, *carried), init)
                return unwrap_carry(carried)
            check_no_carried_references(label, init)

            def run_body(carried: tuple[Any, ...], iteration: Operand) -> tuple[Any, ...]:
                """Trace one iteration, counted from 0; return the next carried values."""
                return as_carry_arrays(label, body(_loop_index(iteration, bounds), *carried), init)

            set_function_name(body, run_body)
            circuit = current_gate_recorder()
            count = len(range(*bounds)) if is_static else count_iterations(bounds)
            run = run_for_loop if circuit is None else circuit.for_loop
            bar = make_loop_progress(progress)
            if bar is None:
                return unwrap_carry(run(count, run_body, init))

            def run_with_bar(carried: tuple[Any, ...], iteration: Operand) -> tuple[Any, ...]:
                """Trace one iteration, and a progress bar update after it."""
                after = run_body(carried, iteration)
                bar.advance(after=after)
                return after

            set_function_name(body, run_with_bar)
            bar.begin(count)
            last = run(count, run_with_bar, init)
            bar.end(count)
            return unwrap_carry(last)

        return wrap_loop("for_loop", loop, progress)

    return decorate


def _loop_index(iteration: Operand, bounds: Bounds) -> Any:
    """Compute the loop index of an iteration, counted from 0: ``lower + iteration * step``."""
    lower, _, step = bounds
    return range_element(iteration, lower, step)


def range_element(iteration: Operand, lower: Any, step: Any) -> Any:
    """Compute an element of a range: ``lower + iteration * step``.

    No equation is emitted for the addition of a static 0, or the multiplication by a static 1.

    Args:
        iteration: position of the element in the range, from 0; may be traced.
        lower: lower bound, an int or a tracer.
        step: step, an int or a tracer.
    """
    stride = iteration if isinstance(step, int) and step == 1 else iteration * step
    return stride if isinstance(lower, int) and lower == 0 else lower + stride


def count_iterations(bounds: Bounds) -> Any:
    """Return the length of a range with traced bounds; 0 if the step is 0.

    Args:
        bounds: lower bound, upper bound and step: ints, or signed integer tracers.

    Returns:
        a traced integer scalar.
    """
    lower, upper, step = (jnp.asarray(bound) for bound in bounds)
    if isinstance(bounds[2], int) and bounds[2] == 1:
        # Avoid the division, which takes longer to compile than the loop.
        distance = upper if isinstance(bounds[0], int) and bounds[0] == 0 else upper - lower
        return jnp.maximum(0, distance)
    ascends = step > 0
    is_empty = jnp.where(ascends, upper <= lower, upper >= lower) | (step == 0)
    # The distance of two signed integers may exceed their range.
    unsigned = f"u{lower.dtype}"
    distance = jnp.where(ascends, upper - lower, lower - upper).astype(unsigned)
    stride = jnp.where(ascends, step, -step).astype(unsigned)
    count = (distance - 1) // jnp.maximum(stride, 1) + 1
    return jnp.where(is_empty, 0, count.astype(lower.dtype))


def run_scan(step: TracedStep, carried: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """Run a loop with static trip count by ``lax.scan``; return the final carried values.

    Unlike ``lax.while_loop``, ``lax.scan`` has a reverse mode.

    Args:
        step: traced body, which takes the carried values and the index of the iteration.
        carried: initial carried values.
        count: number of iterations.
    """
    return jax.lax.scan(lambda *args: step(*args), carried, jnp.arange(count))[0]


def run_for_loop(
    count: Any,
    body: Callable[..., Any],
    carried: tuple[Any, ...],
    run: Callable[[TracedStep, tuple[Any, ...], int], tuple[Any, ...]] = run_scan,
) -> tuple[Any, ...]:
    """Run a counted loop outside of circuits; return the final carried values.

    The interface is the same as in ``GateRecorder.for_loop``, which runs loops inside of circuits.

    Args:
        count: number of iterations: an ``int``, or a tracer.
        body: takes a tuple of carried values and the index of the iteration, from 0; returns the
            tuple of the next carried values.
        carried: initial carried values.
        run: runs the loop if `count` is an ``int``, called as ``run(step, carried, count)`` with
            the traced body; returns the final carried values.
    """
    run_step = lambda *args: (body(*args), ())
    carried, step = trace_step("for_loop", run_step, carried, jnp.asarray(0), body=body)
    if isinstance(count, int):
        return run(step, carried, count)
    return jax.lax.fori_loop(0, count, lambda i, carried: step(carried, i)[0], carried)
