"""Compiled loops that run while a condition is true."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp

from bellhop.arguments.accepted_arguments import check_parameters, format_count, get_decorated_body
from bellhop.arguments.mutable_references import check_no_carried_references
from bellhop.base.public_function import hide_internal_frames, public_function
from bellhop.base.source import describe_derived_function, set_function_name
from bellhop.control_flow.eager_mode import is_eager
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
from bellhop.control_flow.scalars import as_predicate
from bellhop.control_flow.trace_body import trace_step
from bellhop.tracing.state import current_gate_recorder

P = ParamSpec("P")
R = TypeVar("R")
_USAGE = (
    "Pass the body to the loop, and then the initial values: "
    "bellhop.while_loop(cond_fn)(body)(*init)."
)


@public_function(usage=_USAGE)
def while_loop(
    cond_fn: Callable[..., Any],
    *,
    progress: str | None = None,
    allow_array_resizing: bool = False,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile a loop that runs while ``cond_fn(*carried)`` is true.

    The interface is the same as in PennyLane and Catalyst.

    Args:
        cond_fn: takes the carried values and returns a bool or number; must not apply gates.
        progress: description of a progress bar that counts iterations, as in ``progress``; None for
            no bar.
        allow_array_resizing: option for compatibility with PennyLane; must be False, since arrays
            have static shapes.

    Returns:
        a decorator for the body, ``body(*carried)``, which returns the carried values of the next
        iteration (one value, a tuple of several, or None without any). The decorated function takes
        the initial carried values and returns the final values. Inside a QNode the body may apply
        gates, which the adjoint method differentiates. Carried values have the promoted type of
        initial and returned values. Outside of programs, and in uncompiled QNodes, Python runs the
        loop with any values.

    Raises:
        TypeError: if the condition is not a scalar, condition or body do not take the carried
            values, or the body changes the structure or a shape of its carried values; if an
            initial value is a mutable reference.
        NotImplementedError: if ``allow_array_resizing`` is set.

    Example:
        >>> import bellhop
        >>> @bellhop.qjit
        ... def halve(x):
        ...     return bellhop.while_loop(lambda y: y > 1)(lambda y: y / 2)(x)
        >>> halve(12.0)
        Array(0.75, dtype=float64)
    """
    check_no_resizing("while_loop", allow_array_resizing)

    def decorate(*given: Any) -> Callable[..., Any]:
        """Wrap ``body(*carried)`` in a function that runs the loop.

        Args:
            *given: the body; any other arguments raise a `TypeError`.
        """
        body = get_decorated_body("while_loop", given, "@bellhop.while_loop(condition)")
        label = describe_derived_function("while_loop", body)

        @hide_internal_frames
        def loop(*init: Any) -> Any:
            """Run the loop from initial carried values; return the final carried values."""
            condition_label = describe_derived_function("while_loop", cond_fn)
            passed = format_count(len(init), "carried value")
            check_parameters(condition_label, "the condition", cond_fn, len(init), passed)
            check_parameters(label, "the body", body, len(init), passed)

            def condition(carried: tuple[Any, ...]) -> Any:
                """Call the user's condition; return a bool or a traced bool scalar."""
                return as_predicate(condition_label, cond_fn(*carried))

            def run_body(carried: tuple[Any, ...]) -> tuple[Any, ...]:
                """Trace one iteration; return the next carried values."""
                return as_carry_arrays(label, body(*carried), init)

            if is_eager():
                carried = init
                # One item for each condition that holds.
                iterations = iter(lambda: bool(condition(carried)), False)
                for _ in report_iterations(iterations, progress):
                    carried = as_carry_values(label, body(*carried), init)
                return unwrap_carry(carried)
            check_no_carried_references(label, init)
            set_function_name(body, run_body)
            circuit = current_gate_recorder()
            run = run_while_loop if circuit is None else circuit.while_loop
            bar = make_loop_progress(progress)
            if bar is None:
                return unwrap_carry(run(condition, run_body, init))

            def run_with_bar(carried: tuple[Any, ...]) -> tuple[Any, ...]:
                """Trace one iteration, a progress update after it, and the count of iterations.

                Args:
                    carried: number of earlier iterations, and the user's carried values.

                Returns:
                    the number including this iteration, and the next carried values.
                """
                count, *before = carried
                after = run_body(tuple(before))
                bar.advance(after=after)
                return count + 1, *after

            set_function_name(body, run_with_bar)
            bar.begin()
            count, *last = run(lambda carried: condition(carried[1:]), run_with_bar, (0, *init))
            bar.end(count)
            return unwrap_carry(tuple(last))

        return wrap_loop("while_loop", loop, progress)

    return decorate


def run_while_loop(
    condition: Callable[..., Any], body: Callable[..., Any], carried: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Run a ``while`` loop outside of circuits; return the final carried values.

    The interface is the same as in ``GateRecorder.while_loop``, which runs loops inside of
    circuits.

    Args:
        condition: takes the tuple of carried values; returns a bool or a bool scalar.
        body: takes the tuple of carried values; returns the tuple of the next carried values.
        carried: initial carried values.
    """
    run_step = lambda carried: (body(carried), ())
    carried, step = trace_step("while_loop", run_step, carried, body=body)
    return jax.lax.while_loop(
        lambda carried: jnp.asarray(condition(carried)), lambda carried: step(carried)[0], carried
    )
