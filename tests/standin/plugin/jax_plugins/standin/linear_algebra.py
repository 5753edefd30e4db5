"""Linear algebra, random numbers, sums and products of the stand-in: the CPU's, not CUDA's."""

import ctypes

import jax
import jax.extend
from jax._src.interpreters import mlir  # noqa: TID251
from jax._src.lax import lax, linalg  # noqa: TID251
from jax.extend.random import threefry2x32_p
from jax_plugins.standin.callbacks import register
from jaxlib import lapack

# For CUDA, JAX 0.11 lowers these to operations that XLA has for GPUs alone: at chlo.scan its
# compiler for CPUs ends the process, and ragged-dot is UNIMPLEMENTED there.
_FOR_GPUS_ALONE = (
    lax.ragged_dot_general_p,
    jax.lax.cumsum_p,
    jax.lax.cumprod_p,
    jax.lax.cummax_p,
    jax.lax.cummin_p,
    jax.lax.cumlogsumexp_p,
)


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
    for primitive in (*vars(linalg).values(), threefry2x32_p, *_FOR_GPUS_ALONE):
        if not isinstance(primitive, jax.extend.core.Primitive):
            continue
        rules[platform].pop(primitive, None)
        if primitive in rules["cpu"]:
            rules[platform][primitive] = rules["cpu"][primitive]
