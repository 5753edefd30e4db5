"""Native runtime of Bellhop: the custom-call targets of compiled programs.

Importing the package registers every target of ``runtime/contract.toml`` with XLA's CPU
client.  The package imports neither ``bellhop`` nor ``bellhop_mlir``.
"""

from pathlib import Path

from bellhop_runtime._registration import DTYPES, TARGETS, element_type, register
from bellhop_runtime._runtime import (
    CONTRACT,
    Bars,
    Callback,
    CallbackTable,
    CallWithArguments,
    CompiledCall,
    FastCall,
    JointRun,
    NativeFunction,
    Profile,
    argument_of_call,
    begin_run,
    call_in_default_environment,
    close_calls,
    close_taps,
    end_bars,
    end_run,
    engine_limits,
    held,
    hold,
    keep_failure,
    live_sessions,
    look_at_bars,
    look_at_failure,
    memory_for_process,
    most_qubits_in_engine,
    pending_regions,
    profile_clock,
    profile_thread,
    record_span,
    release_run,
    runs_under_way,
    set_tap_limit,
    stop_watching_bars,
    take_failure,
    take_held,
    take_tap_failures,
    tap_limit,
    under_way,
    wait_for_taps,
    waiting_taps,
    within,
)

register()


def include_dir() -> str:
    """Return the path of the folder with the C++ headers of the runtime, for ``-I``.

    It contains ``bellhop/quantum_device.h``, for authors of quantum devices, and
    ``bellhop/native.h``, for C functions that programs call.
    """
    return str(Path(__file__).parent / "include")


__all__ = [
    "CONTRACT",
    "DTYPES",
    "TARGETS",
    "Bars",
    "Callback",
    "NativeFunction",
    "CallbackTable",
    "CompiledCall",
    "FastCall",
    "JointRun",
    "Profile",
    "CallWithArguments",
    "argument_of_call",
    "begin_run",
    "call_in_default_environment",
    "close_calls",
    "close_taps",
    "end_bars",
    "element_type",
    "end_run",
    "engine_limits",
    "held",
    "hold",
    "include_dir",
    "keep_failure",
    "live_sessions",
    "most_qubits_in_engine",
    "look_at_bars",
    "look_at_failure",
    "memory_for_process",
    "pending_regions",
    "profile_clock",
    "profile_thread",
    "record_span",
    "release_run",
    "runs_under_way",
    "set_tap_limit",
    "stop_watching_bars",
    "take_failure",
    "take_held",
    "take_tap_failures",
    "tap_limit",
    "under_way",
    "wait_for_taps",
    "waiting_taps",
    "within",
]
