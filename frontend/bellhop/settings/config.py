"""Process-wide settings, applied once when bellhop is imported."""

import contextlib
import os
import warnings

import jax
from jax.extend import source_info_util

import bellhop_mlir
from bellhop._jax.private import (
    backends_are_initialized,
    cpu_dispatch_is_asynchronous,
    hide_frames_of,
)
from bellhop.base.source import PACKAGE
from bellhop_runtime import set_tap_limit


def read_environment_integer(name: str, unit: str) -> int | None:
    """Return the non-negative integer in an environment variable; None if unset.

    Args:
        name: name of the variable.
        unit: plural noun for the error, such as ``"bytes"``.

    Raises:
        ValueError: if the variable holds anything but decimal digits.
    """
    text = os.environ.get(name)
    if text is not None and not text.isdecimal():
        raise ValueError(
            f"{name}={text!r} is not a number of {unit}. Set the variable to decimal digits."
        )
    return None if text is None else int(text)


def configure_taps() -> None:
    """Apply environment variables for taps (asynchronous calls, which are queued).

    If ``BELLHOP_TAP_QUEUE_BYTES`` is set, it limits the queue's size. The value of
    ``BELLHOP_TAP_EXIT_SECONDS`` is only checked. Called once, when bellhop is imported.

    Raises:
        ValueError: if one of the two variables does not hold an integer.
    """
    limit = read_environment_integer("BELLHOP_TAP_QUEUE_BYTES", "bytes")
    if limit is not None:
        set_tap_limit(limit)
    tap_exit_seconds()  # An invalid value raises here, at import.


def tap_exit_seconds() -> int:
    """Return for how many seconds the process waits for taps before it exits.

    The environment variable ``BELLHOP_TAP_EXIT_SECONDS`` sets it; the default is 60.

    Raises:
        ValueError: if the variable does not hold an integer in decimal digits.
    """
    seconds = read_environment_integer("BELLHOP_TAP_EXIT_SECONDS", "seconds")
    return 60 if seconds is None else seconds


ENGINES = ("auto", "plugin")
PRECISIONS = ("double", "single")


def read_environment_engine() -> str:
    """Return the default of qjit's option ``engine``, from ``BELLHOP_ENGINE``.

    Returns:
        ``"auto"`` if the variable is not set: Bellhop's own simulator, the engine, runs circuits on
        Lightning devices if it supports them. ``"plugin"``: the PennyLane device runs them.

    Raises:
        ValueError: if the variable has any other value.
    """
    name = os.environ.get("BELLHOP_ENGINE", "auto")
    if name not in ENGINES:
        raise ValueError(
            f"BELLHOP_ENGINE={name!r}: the engine for circuits is one of {', '.join(ENGINES)}. Set "
            "the variable to one of them."
        )
    return name


def configure_jax() -> None:
    """Set the JAX options that Bellhop's programs need; called once, at import.

    Turns on 64-bit types, which PennyLane users expect, unless ``JAX_ENABLE_X64`` is set or
    ``BELLHOP_X64=0``. Makes CPU dispatch synchronous: with asynchronous dispatch, executions whose
    callbacks use JAX deadlock (jax-ml/jax#24255, jax-ml/jax#25861). Hides the frames of this
    package in source locations of programs and in tracebacks; ``jax_traceback_filtering`` shows
    them.

    Warns:
        UserWarning: if JAX has initialised its backends before, with asynchronous dispatch.
    """
    source_info_util.register_exclusion(PACKAGE)
    for package in (PACKAGE, os.path.dirname(bellhop_mlir.__file__)):
        hide_frames_of(package + os.sep)
    # Context managers of these packages are entered and left through contextlib.
    hide_frames_of(contextlib.__file__)
    is_left_alone = os.environ.get("BELLHOP_X64") == "0" or "JAX_ENABLE_X64" in os.environ
    if not is_left_alone:
        jax.config.update("jax_enable_x64", True)
    if cpu_dispatch_is_asynchronous():
        if backends_are_initialized():
            warnings.warn(
                "JAX was used before bellhop was imported, so its CPU backend dispatches "
                "asynchronously and programs whose callbacks use JAX may hang. Import bellhop "
                "first, or set JAX_CPU_ENABLE_ASYNC_DISPATCH=0.",
                stacklevel=3,
            )
        jax.config.update("jax_cpu_enable_async_dispatch", False)
