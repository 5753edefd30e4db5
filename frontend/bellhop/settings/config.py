"""Process-wide settings, made once when bellhop is imported."""

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
    """Return the number that an environment variable is set to; None where it is not set.

    Raises:
        ValueError: where that is no number ``unit`` what it counts.
    """
    text = os.environ.get(name)
    if text is not None and not text.isdecimal():
        raise ValueError(f"{name}={text!r} is not a number of {unit}. Write digits only.")
    return None if text is None else int(text)


def configure_taps() -> None:
    """Set how many bytes of taps may wait: ``BELLHOP_TAP_QUEUE_BYTES``.

    Raises:
        ValueError: where that is no number of bytes.
    """
    limit = read_environment_integer("BELLHOP_TAP_QUEUE_BYTES", "bytes")
    if limit is not None:
        set_tap_limit(limit)
    tap_exit_seconds()  # so that a wrong one is an error here


def tap_exit_seconds() -> int:
    """Return how long the end of the process waits for taps: ``BELLHOP_TAP_EXIT_SECONDS``.

    Raises:
        ValueError: where that is no number of seconds.
    """
    seconds = read_environment_integer("BELLHOP_TAP_EXIT_SECONDS", "seconds")
    return 60 if seconds is None else seconds


ENGINES = ("auto", "plugin")
PRECISIONS = ("double", "single")


def read_environment_engine() -> str:
    """Return what runs circuits where qjit's option does not say: ``BELLHOP_ENGINE``.

    Raises:
        ValueError: where that is no engine.
    """
    name = os.environ.get("BELLHOP_ENGINE", "auto")
    if name not in ENGINES:
        raise ValueError(
            f"BELLHOP_ENGINE={name!r}: the engine for circuits is one of {', '.join(ENGINES)}."
        )
    return name


def configure_jax() -> None:
    """Set what bellhop's programs need of JAX.

    PennyLane users expect JAX's 64-bit types.  They are as the environment says where it does,
    by ``JAX_ENABLE_X64``; ``BELLHOP_X64=0`` leaves them as they are.

    CPU dispatch must be synchronous: with asynchronous dispatch, executions whose callbacks
    use JAX wait for threads that wait for them (jax-ml/jax#24255, jax-ml/jax#25861).

    Locations in programs are the user's lines, not those of this package, and so are the
    tracebacks that users see; ``jax_traceback_filtering`` brings the others back.
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
