"""The native runtime of Bellhop: custom-call targets that compiled programs use.

Importing it registers every target of ``runtime/contract.toml`` with XLA's CPU
client.  It imports neither ``bellhop`` nor ``bellhop_mlir``.
"""

from bellhop_runtime._registration import DTYPES, TARGETS, register
from bellhop_runtime._runtime import (
    Arguments,
    Callback,
    CallbackTable,
    close_calls,
    close_taps,
    keep_failure,
    live_sessions,
    pending_regions,
    release_run,
    set_tap_limit,
    take_failure,
    take_tap_failures,
    tap_limit,
    wait_for_taps,
)

register()

__all__ = [
    "DTYPES",
    "TARGETS",
    "Arguments",
    "Callback",
    "CallbackTable",
    "close_calls",
    "close_taps",
    "keep_failure",
    "live_sessions",
    "pending_regions",
    "release_run",
    "set_tap_limit",
    "take_failure",
    "take_tap_failures",
    "tap_limit",
    "wait_for_taps",
]
