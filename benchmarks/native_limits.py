"""The native limits: loops in C++ that no callback in a compiled loop can beat.

They are built here, with the compiler that builds the runtime, and are no part of the
package.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_suffix(".cc")
BUILT = Path(__file__).resolve().parent / ".native"


def call_in_loop(function: Callable[[Any], Any], start: float, iterations: int) -> float:
    """Return `function(function(... start))`, each time of a new NumPy array."""
    result: float = _library().limits_call_in_loop(function, start, iterations)
    return result


def noop_in_loop(iterations: int) -> Callable[[Any], Any]:
    """Make a program that calls a custom call which does nothing, in a compiled loop."""
    import jax

    target = "bellhop_benchmark_noop"
    jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(_library().limits_noop), platform="cpu")
    scalar = jax.ShapeDtypeStruct((), "float64")
    noop = jax.ffi.ffi_call(target, scalar)
    return jax.jit(lambda x: jax.lax.fori_loop(0, iterations, lambda _, x: noop(x), x))


@functools.cache
def _library() -> Any:
    library = ctypes.PyDLL(str(_built()))
    library.limits_init.restype = ctypes.c_bool
    library.limits_init()
    library.limits_call_in_loop.restype = ctypes.c_double
    library.limits_call_in_loop.argtypes = [ctypes.py_object, ctypes.c_double, ctypes.c_long]
    return library


def _built() -> Path:
    import jax
    import numpy as np

    folders = [sysconfig.get_path("include"), np.get_include(), jax.ffi.include_dir()]
    command = ["c++", "-std=c++20", "-O3", "-fPIC", "-shared", str(SOURCE)]
    command += [f"-isystem{folder}" for folder in folders]
    # Other headers, or another source, are another library.
    key = hashlib.sha256(repr(command).encode() + SOURCE.read_bytes()).hexdigest()[:16]
    library = BUILT / f"limits-{key}.so"
    if not library.exists():
        BUILT.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILT) as folder:
            made = Path(folder, "limits.so")
            done = subprocess.run([*command, "-o", str(made)], capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"the limit programs do not build: {done.stderr.strip()}")
            # At once, since workers may build at the same time.
            made.replace(library)
    return library
