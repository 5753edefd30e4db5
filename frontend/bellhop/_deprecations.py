"""Warnings for public names that a later release removes.

``doc/contributing/stability.md`` promises at least one minor release between the two::

    @deprecated(since="0.2", removed_in="0.4", instead="bellhop.draw")
    def show(function): ...

    show(f)    # DeprecationWarning: bellhop.show is deprecated since 0.2 and will be removed in ...

Nothing is deprecated in 0.1.  A test finds every use, and fails in the release that has to remove
it.
"""

import functools
import os
import sys
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

Params = ParamSpec("Params")
Result = TypeVar("Result")

_PACKAGE = os.path.dirname(__file__) + os.sep


def deprecated(
    *, since: str, removed_in: str, instead: str
) -> Callable[[Callable[Params, Result]], Callable[Params, Result]]:
    """Return a decorator that makes a public function warn when it is called.

    Args:
        since: `str`, the minor release that deprecates the function, for instance ``"0.2"``.
        removed_in: `str`, the minor release that removes it, at least two after `since`.
        instead: `str`, the name or the advice that replaces the function.

    Returns:
        The decorator. The decorated function works as before.

    Raises:
        ValueError: `removed_in` leaves no minor release in which the function still works.
    """
    check_period(since, removed_in)

    def decorate(function: Callable[Params, Result]) -> Callable[Params, Result]:
        """Return a function that warns and then calls `function`."""
        name = f"bellhop.{function.__qualname__}"

        @functools.wraps(function)
        def warn_and_call(*args: Params.args, **kwargs: Params.kwargs) -> Result:
            """Warn in the name of the caller's line, and call the function."""
            warn_deprecated(name, since=since, removed_in=removed_in, instead=instead)
            return function(*args, **kwargs)

        return warn_and_call

    return decorate


def warn_deprecated(what: str, *, since: str, removed_in: str, instead: str) -> None:
    """Warn that something public will be removed, for instance an option or a default.

    The warning names the innermost line outside of Bellhop, so Python shows it for code in
    ``__main__`` and in tests.

    Args:
        what: `str`, the deprecated name, with the function of an option.
        since: `str`, as of `deprecated`.
        removed_in: `str`, as of `deprecated`.
        instead: `str`, as of `deprecated`.

    Raises:
        ValueError: as of `deprecated`.
    """
    check_period(since, removed_in)
    warnings.warn(
        f"{what} is deprecated since {since} and will be removed in {removed_in}. "
        f"Use {instead} instead.",
        DeprecationWarning,
        stacklevel=_caller_level(),
    )


def check_period(since: str, removed_in: str) -> None:
    """Check that a minor release lies between a deprecation and the removal.

    Raises:
        ValueError: if none does, or a string is not a version of two numbers.
    """
    (major, minor), end = _parse_release(since), _parse_release(removed_in)
    if end < (major + 1, 0) and end < (major, minor + 2):
        raise ValueError(
            f"deprecated: expected a minor release between since={since!r} and "
            f"removed_in={removed_in!r}. Set removed_in to '{major}.{minor + 2}' or later."
        )


def _parse_release(version: str) -> tuple[int, int]:
    """Return the two numbers of a minor release."""
    major, _, minor = version.partition(".")
    if not (major.isdecimal() and minor.isdecimal()):
        raise ValueError(f"deprecated: expected a release such as '0.2', got {version!r}.")
    return int(major), int(minor)


def _caller_level() -> int:
    """Return the `stacklevel` for `warnings.warn` in this function's caller."""
    level, frame = 1, sys._getframe(1)
    while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    return level
