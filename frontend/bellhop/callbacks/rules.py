"""The derivative rules of pure callbacks: errors that name the rule, and its residuals."""

import functools
from collections.abc import Callable
from typing import Any

import jax

from bellhop.compiler.target import describe, is_array_like
from bellhop.tracing.state import NOT_TRACEABLE


def checked_rule(function: Callable[..., Any], name: str, callback: str) -> Callable[..., Any]:
    """Return a rule whose exceptions say whose it is.

    Args:
        function: the user's.
        name: of the rule.
        callback: the name of the callback.

    Raises:
        TypeError: where it is no function.
    """
    if not callable(function):
        raise TypeError(
            f"the {name} rule of pure_callback '{callback}' must be a function, got {function!r}."
        )

    @functools.wraps(function)
    def rule(*args: Any) -> Any:
        try:
            return function(*args)
        except Exception as error:
            note = f"raised in the {name} rule of pure_callback '{callback}'"
            if isinstance(error, NOT_TRACEABLE):
                note += (
                    ". A rule is traced: write it with jax.numpy, or let it call another "
                    "pure_callback"
                )
            error.add_note(note)
            raise

    return rule


def check_residuals(residuals: Any, callback: str) -> None:
    """Refuse residuals that no program can keep.

    Raises:
        TypeError: naming the callback.
    """
    for leaf in jax.tree.leaves(residuals):
        if not is_array_like(leaf):
            raise TypeError(
                f"the fwd rule of pure_callback '{callback}' returned residuals with "
                f"{describe(leaf)}; they are arrays, numbers, None and pytrees of these. What is "
                "known when the program is traced, the bwd rule may take from around it."
            )
