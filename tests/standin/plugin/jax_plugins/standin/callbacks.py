"""JAX's callbacks in programs for the stand-in, whose handlers a plugin for GPUs brings itself.

JAX numbers the functions that a program calls, and gives them to its executable by a way that is
closed to us; here all programs number theirs in one table.
"""

import ctypes
import itertools
import os
import traceback

import jax
import ml_dtypes
import numpy as np
from jax._src import compiler  # noqa: TID251
from jax._src.lib.mlir import ir  # noqa: TID251
from jax.experimental.buffer_callback import ExecutionStage

_functions = {}
_numbers = itertools.count()
_TARGETS = {
    "xla_ffi_python_gpu_callback": "Values",
    "xla_ffi_partitioned_python_gpu_callback": "Values",
    "xla_buffer_python_gpu_callback": "Buffers",
    "xla_buffer_python_gpu_callback_cmd_buffer": "Buffers",
}
# The numbers of the FFI's element types.
_DTYPES = {
    **{1: bool, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64},
    **{6: np.uint8, 7: np.uint16, 8: np.uint32, 9: np.uint64},
    **{10: np.float16, 11: np.float32, 12: np.float64, 15: np.complex64, 18: np.complex128},
    **{16: ml_dtypes.bfloat16, 19: ml_dtypes.float8_e5m2, 20: ml_dtypes.float8_e4m3fn},
    **{21: ml_dtypes.int4, 22: ml_dtypes.uint4},
}


def install(device):
    """Register the handlers, and give programs that are compiled from now on their numbers."""
    device.register_handler.restype = ctypes.c_char_p
    device.register_handler.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
    library = ctypes.PyDLL(os.environ["STANDIN_CALLBACKS"])
    library.set_functions.argtypes = [ctypes.py_object] * 2
    library.set_functions(_call_with_values, _call_with_buffers)
    for target, symbol in _TARGETS.items():
        register(device, target, ctypes.cast(getattr(library, symbol), ctypes.c_void_p))
    register(device, "standin_busy", ctypes.cast(library.Busy, ctypes.c_void_p))
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
    jax.ffi.register_ffi_target(
        "standin_busy", capsule(ctypes.cast(library.Busy, ctypes.c_void_p), None, None), "cpu"
    )
    _number_functions()


def register(device, target, handler):
    """Register a handler of custom calls with the stand-in's client."""
    error = device.register_handler(target.encode(), handler)
    assert error is None, error


def _array(described):
    """Return the array that is described, or None for a token."""
    if described is None:
        return None
    memory, number, shape = described
    dtype = np.dtype(_DTYPES[number])
    return np.frombuffer(memory, dtype, count=int(np.prod(shape))).reshape(shape)


def _reported(error):
    return "CpuCallback error calling callback: " + "".join(traceback.format_exception(error))


def _call_with_values(number, arguments, results):
    try:
        # Copies, as of what was on a device; JAX's functions take tokens and return them.
        copies = [None if each is None else each.copy() for each in map(_array, arguments)]
        for copy in copies:
            if copy is not None:
                copy.flags.writeable = False
        values = _functions[number](*copies)
        for result, value in zip(map(_array, results), values, strict=True):
            if result is not None:
                result[...] = value
    except BaseException as error:
        return _reported(error)


class Buffer:
    """What JAX's ``buffer_callback`` gives on a GPU, of memory that NumPy may read here."""

    def __init__(self, array, *, is_written):
        self._array = array
        self.dtype, self.shape, self.ndim = array.dtype, array.shape, array.ndim
        self.writeable = is_written

    def unsafe_raw_buffer_pointer(self):
        """Return the address."""
        return self._array.ctypes.data

    def __array__(self, dtype=None, copy=None):
        return self._array

    def __dlpack__(self, **options):
        # NumPy hands over no memory that is read only.
        array = self._array if self.writeable else self._array.copy()
        return array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


class _Context:
    """What JAX tells a ``buffer_callback`` of its run: no stream is here."""

    stage = ExecutionStage.EXECUTE
    stream = 0


def _call_with_buffers(number, arguments, results):
    try:
        given = [Buffer(_array(each), is_written=False) for each in filter(None, arguments)]
        written = [Buffer(_array(each), is_written=True) for each in filter(None, results)]
        _functions[number](_Context(), *given, *written)
    except BaseException as error:
        return _reported(error)


def _number_functions():
    compile_by_jax = compiler.compile_or_get_cached

    def compile_numbered(backend, module, devices, options, host_callbacks, *args, **kwargs):
        if backend.platform == "cpu" or not host_callbacks:
            return compile_by_jax(
                backend, module, devices, options, host_callbacks, *args, **kwargs
            )
        kept = _Functions(host_callbacks)
        with module.context:
            _renumber(module.operation, kept.numbers)
        # The executable keeps them alive.
        return compile_by_jax(backend, module, devices, options, [kept], *args, **kwargs)

    compiler.compile_or_get_cached = compile_numbered


class _Functions:
    def __init__(self, functions):
        self.numbers = [next(_numbers) for _ in functions]
        _functions.update(zip(self.numbers, functions, strict=True))

    def __call__(self):
        raise AssertionError("they are called by their numbers")

    def __del__(self):
        for number in self.numbers:
            del _functions[number]


def _renumber(op, numbers):
    for region in op.regions:
        for block in region.blocks:
            for each in block.operations:
                if each.operation.name == "stablehlo.custom_call":
                    _renumber_call(each.operation, numbers)
                _renumber(each.operation, numbers)


def _renumber_call(op, numbers):
    if ir.StringAttr(op.attributes["call_target_name"]).value not in _TARGETS:
        return
    config = ir.DictAttr(op.attributes["mhlo.backend_config"])
    changed = {each.name: each.attr for each in config}
    index = ir.IntegerAttr(changed["index"])
    changed["index"] = ir.IntegerAttr.get(index.type, numbers[index.value])
    op.attributes["mhlo.backend_config"] = ir.DictAttr.get(changed)
