"""Register custom-call targets with XLA and NumPy dtypes with the runtime."""

import gc
import os

import jax.ffi
import ml_dtypes
import numpy as np

from bellhop_runtime import _runtime

TARGETS: tuple[str, ...] = tuple(sorted(_runtime.targets()))

# Values of XLA_FFI_DataType in the FFI's C API.  Types of one bit are missing, because JAX has no
# operations for them.
_ELEMENT_TYPES = {
    1: np.bool_,
    2: np.int8,
    3: np.int16,
    4: np.int32,
    5: np.int64,
    6: np.uint8,
    7: np.uint16,
    8: np.uint32,
    9: np.uint64,
    10: np.float16,
    11: np.float32,
    12: np.float64,
    15: np.complex64,
    16: ml_dtypes.bfloat16,
    18: np.complex128,
    19: ml_dtypes.float8_e5m2,
    20: ml_dtypes.float8_e4m3fn,
    21: ml_dtypes.int4,
    22: ml_dtypes.uint4,
    23: ml_dtypes.float8_e4m3b11fnuz,
    24: ml_dtypes.float8_e5m2fnuz,
    25: ml_dtypes.float8_e4m3fnuz,
    26: ml_dtypes.int2,
    27: ml_dtypes.uint2,
    28: ml_dtypes.float8_e4m3,
    29: ml_dtypes.float8_e3m4,
    32: ml_dtypes.float4_e2m1fn,
    33: ml_dtypes.float8_e8m0fnu,
}

_NUMBERS = {np.dtype(dtype): number for number, dtype in _ELEMENT_TYPES.items()}

DTYPES: frozenset[np.dtype] = frozenset(map(np.dtype, _ELEMENT_TYPES.values()))


def element_type(dtype: np.dtype) -> int:
    """Return the value of ``XLA_FFI_DataType`` for a NumPy dtype.

    Raises:
        KeyError: for a dtype that is not in ``DTYPES``.
    """
    return _NUMBERS[np.dtype(dtype)]


def register() -> None:
    """Register custom-call targets with XLA, and dtypes with the runtime.

    Also registers hooks of the garbage collector and of forks. Called once, when the package
    is imported.
    """
    for number, dtype in _ELEMENT_TYPES.items():
        _runtime.set_dtype(number, np.dtype(dtype))
    for name, stages in _runtime.targets().items():
        jax.ffi.register_ffi_target(name, stages, platform="cpu")
    # Not a Python function: KeyboardInterrupt could be raised in it, and Python drops exceptions of
    # such a callback; at the exit of the process the globals of its module are gone.
    gc.callbacks.append(_runtime.on_collection)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_runtime.forget_threads)
