"""User settings of autograph: strict mode, warnings and `disable_autograph`."""

import contextlib
import sys

from bellhop.base.source import user_site, warn_user
from bellhop.errors import AutoGraphError
from bellhop.tracing.state import disable_conversion, trace_state


class DisableAutograph(contextlib.ContextDecorator):
    """Leave Python control flow unconverted: the class of ``disable_autograph``.

    A context manager and decorator, with the same interface as in Catalyst.

    Example:
        >>> import bellhop
        >>> @bellhop.disable_autograph
        ... def scale():
        ...     return 2 if True else 3
        >>> @bellhop.qjit(autograph=True)
        ... def f(x):
        ...     with bellhop.disable_autograph:
        ...         y = 1.0 if scale() > 1 else 0.0
        ...     return x * scale() + y
        >>> f(1.0)
        Array(3., dtype=float64, weak_type=True)
    """

    def __enter__(self) -> None:
        disable_conversion(1)

    def __exit__(self, *_: object) -> None:
        disable_conversion(-1)


disable_autograph = DisableAutograph()


_given_warnings: set[str] = set()


def is_disabled() -> bool:
    """Return whether the current code runs under ``disable_autograph``."""
    return trace_state().disabled > 0


def check_not_strict(label: str, why: str, cause: BaseException | None = None) -> None:
    """Raise an error for a statement that is not converted, if strict conversion is on.

    Strict conversion is on if ``bellhop.autograph_strict_conversion`` is true; otherwise nothing
    happens.

    Args:
        label: description of the statement or function, such as ``"the for loop"``.
        why: the reason, without a full stop.
        cause: exception that prevents the conversion, or None.

    Raises:
        AutoGraphError: in strict mode; names the user's line.
    """
    if sys.modules["bellhop"].autograph_strict_conversion:
        raise AutoGraphError(
            f"{label} ({user_site()}) is not converted, and conversion is strict "
            f"(bellhop.autograph_strict_conversion): {why}. Put the code "
            "under bellhop.disable_autograph to run it in Python."
        ) from cause


def fall_back(label: str, error: BaseException) -> None:
    """Warn that a statement or function cannot be converted, and that Python runs it.

    Each warning is given once in a process, as each trace runs the statement again. It is left
    out if ``bellhop.autograph_ignore_fallbacks`` is true. The caller runs the statement afterwards.

    Args:
        label: description of the statement or function, such as ``"the for loop"``.
        error: exception that prevents the conversion.

    Raises:
        AutoGraphError: in strict mode; names the user's line.
    """
    cause = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    check_not_strict(label, cause.rstrip("."), error)
    described = f"{label} ({user_site()}) is not converted and runs as Python: {cause}"
    if sys.modules["bellhop"].autograph_ignore_fallbacks or described in _given_warnings:
        return
    # Python's own memory of warnings is cleared by every `warnings.catch_warnings`.
    _given_warnings.add(described)
    warn_user(
        f"{described}\nTo silence this, set bellhop.autograph_ignore_fallbacks = True; to make it "
        "an error, bellhop.autograph_strict_conversion = True."
    )
