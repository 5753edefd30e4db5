"""Warnings for f-strings of traced values, which show types in place of values."""

import sys
from typing import Any

from bellhop._jax.patches.tracer_format import Format, patch_formatting
from bellhop.base.exception_attributes import add_note
from bellhop.base.source import is_in_users_project, user_site, warn_user
from bellhop.tracing.state import trace_state

_ADVICE = (
    "While a program is traced, the text of a traced value is its type. Give the value to a "
    'function that runs with the program: bellhop.debug.print("x = {x:.2f}", x=x), or '
    "bellhop.debug.log."
)


def explain_formatting() -> None:
    """Patch JAX to warn if the user's code formats a tracer while a program is traced.

    This applies to f-strings, ``str.format`` and ``format``.
    """
    patch_formatting(_format_traced)


def _format_traced(tracer: Any, specification: str, format_with_jax: Format) -> str:
    """Format a tracer; warn if the user's code formats it while a program is traced.

    Args:
        tracer: the traced value.
        specification: the format specification, such as ``".2f"``, which tracers do not support.
        format_with_jax: the method of tracers that this function replaces.

    Raises:
        TypeError: for a specification, with a note that names the user's line.

    Warns:
        UserWarning: naming the user's line.
    """
    state = trace_state()
    # Frame 0 is this function, frame 1 is the patch, and frame 2 has the f-string.
    is_in_program = state.is_tracing or state.in_region
    if not is_in_program or not is_in_users_project(sys._getframe(2).f_code.co_filename):
        return format_with_jax(tracer, specification)
    try:
        text = format_with_jax(tracer, specification)
    except TypeError as error:
        add_note(error, f"bellhop: at {user_site()}, a traced value is formatted. {_ADVICE}")
        raise
    warn_user(f"a traced value is formatted as {text}. {_ADVICE}")
    return text
