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
    """Return a decorator that makes a public function emit a `DeprecationWarning`.

    Args:
        since: `str`, the minor release that deprecates the function, for instance ``"0.2"``.
        removed_in: `str`, the minor release that removes it, at least two after `since`.
        instead: `str`, the name or the advice that replaces the function.

    Returns:
        the decorator; the decorated function warns at each call and works as before.

    Raises:
        ValueError: `removed_in` leaves no minor release in which the function still works, or a
            release is not of the form ``"major.minor"``.
    """
    check_period(since, removed_in)

    def decorate(function: Callable[Params, Result]) -> Callable[Params, Result]:
        """Wrap `function`, so that each call warns: the decorator of `deprecated`."""
        name = f"bellhop.{function.__qualname__}"

        @functools.wraps(function)
        def warn_and_call(*args: Params.args, **kwargs: Params.kwargs) -> Result:
            """Warn that the deprecated function will be removed, and call it.

            The warning names the caller's line.
            """
            warn_deprecated(name, since=since, removed_in=removed_in, instead=instead)
            return function(*args, **kwargs)

        return warn_and_call

    return decorate


def warn_deprecated(what: str, *, since: str, removed_in: str, instead: str) -> None:
    """Emit a `DeprecationWarning` for a function, option or default.

    The warning names the innermost line outside of Bellhop, so Python shows it for code in
    ``__main__`` and in tests.

    Args:
        what: the deprecated name as the user writes it, such as ``"bellhop.show"`` or, for an
            option, ``"qjit(verbose=...)"``.
        since: the minor release that deprecates it, such as ``"0.2"``.
        removed_in: the minor release that removes it, at least two after `since`.
        instead: the name or the advice that replaces it.

    Raises:
        ValueError: `removed_in` leaves no minor release in which the name still works, or a
            release is not of the form ``"major.minor"``.
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

    For example ``"0.2"`` and ``"0.4"`` pass, and ``"0.2"`` and ``"0.3"`` do not. A release of a
    later major version always passes.

    Args:
        since: the minor release that deprecates a name, such as ``"0.2"``.
        removed_in: the minor release that removes the name.

    Raises:
        ValueError: if no minor release lies between them, or a string is not of the form
            ``"major.minor"``.
    """
    (major, minor), end = _parse_release(since), _parse_release(removed_in)
    if end < (major + 1, 0) and end < (major, minor + 2):
        raise ValueError(
            f"deprecated: expected a minor release between since={since!r} and "
            f"removed_in={removed_in!r}. Set removed_in to '{major}.{minor + 2}' or later."
        )


def _parse_release(version: str) -> tuple[int, int]:
    """Parse a minor release: ``"0.2"`` gives ``(0, 2)``.

    Args:
        version: the release as the developer wrote it.

    Raises:
        ValueError: if the text is not two decimal numbers with a dot between them.
    """
    major, _, minor = version.partition(".")
    if not (major.isdecimal() and minor.isdecimal()):
        raise ValueError(f"deprecated: expected a release such as '0.2', got {version!r}.")
    return int(major), int(minor)


def _caller_level() -> int:
    """Return the `stacklevel` of `warnings.warn` that names the user's line.

    It is counted from the function that calls this one, and selects the innermost frame whose file
    is not in the package ``bellhop``.
    """
    level, frame = 1, sys._getframe(1)
    while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    return level
