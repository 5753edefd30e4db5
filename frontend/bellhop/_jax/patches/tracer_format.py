"""Warn where the code of a program formats a traced value, such as ``print(f"{x}")``.

    bellhop.qjit(lambda x: print(f"x = {x}"))(1.0)
    with this patch: a warning that names bellhop.debug.print
    without: prints "x = JitTracer(float64[])", once

Replaced: ``jax.core.Tracer.__format__``, which Python calls for f-strings and ``str.format``, and
which JAX inherits from ``object``.
Versions: 0.10 to 0.12.
Upstream: an error or a warning of JAX for formatted tracers.
Issue: none reported.
Installed: when the first function is compiled, or the first region is traced.
Test: ``test_mistakes_of_new_users.py``.
"""

from collections.abc import Callable
from typing import Any

import jax

from bellhop._patching import original, patch, replace

Format = Callable[[Any, str], str]


@patch("the formatting of tracers", "f-strings of traced values warn in programs")
def patch_formatting(format_traced: Callable[[Any, str, Format], str]) -> None:
    """Replace ``jax.core.Tracer.__format__``, which formats a tracer in f-strings.

    Args:
        format_traced: takes the tracer, the format specification and the original method; returns
            the text.
    """
    format_with_jax = original(jax.core.Tracer, "__format__")

    def format_tracer(tracer: Any, specification: str) -> str:
        """Format a tracer by `format_traced`: the new ``__format__``."""
        return format_traced(tracer, specification, format_with_jax)

    replace(jax.core.Tracer, "__format__", format_tracer)
