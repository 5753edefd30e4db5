"""Linear algebra and random numbers of the stand-in: the CPU's, in place of CUDA's."""

import ctypes

import jax.extend
from jax._src.interpreters import mlir  # noqa: TID251
from jax._src.lax import linalg  # noqa: TID251
from jax.extend.random import threefry2x32_p
from jax_plugins.standin.callbacks import register
from jaxlib import lapack


def install(device, platform):
    """Lower decompositions for the platform as for the CPU, and register what they call."""
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    linalg.initialize_lapack()
    for target, capsule, is_typed in lapack.registrations()["cpu"]:
        if is_typed:
            register(device, target, address(capsule, b"xla._CUSTOM_CALL_TARGET"))
    _take_rules_of_cpu(mlir._platform_specific_lowerings, platform)


def _take_rules_of_cpu(rules, platform):
    # Random numbers too are CUDA's kernels there.
    for primitive in (*vars(linalg).values(), threefry2x32_p):
        if not isinstance(primitive, jax.extend.core.Primitive):
            continue
        rules[platform].pop(primitive, None)
        if primitive in rules["cpu"]:
            rules[platform][primitive] = rules["cpu"][primitive]
