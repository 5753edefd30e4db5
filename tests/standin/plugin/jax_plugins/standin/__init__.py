"""A JAX plugin: a platform that calls itself "cuda", and is an XLA CPU client of its own.

``python -m tests.standin`` builds it and attaches it; JAX finds it as it finds any plugin.  What it
stands in for: a device whose memory the host cannot read, with programs that run asynchronously,
JAX's callbacks for GPUs, and linear algebra.  What it lacks: CUDA, its libraries, streams, speed.
"""

import ctypes
import os
from typing import Any

_PLATFORM = os.environ.get("STANDIN_PLATFORM", "cuda")
_device = ctypes.CDLL(os.environ["STANDIN_DEVICE"])


def initialize() -> None:
    """Register the platform: JAX calls this before its first use of a device."""
    from jax._src import hardware_utils, xla_bridge  # noqa: TID251

    def make_client():
        from jax_plugins.standin import callbacks, linear_algebra

        client = xla_bridge.make_pjrt_c_api_client(
            _PLATFORM,
            {"asynchronous": True, "cpu_device_count": int(os.environ.get("STANDIN_DEVICES", "2"))},
        )
        callbacks.install(_device)
        linear_algebra.install(_device, _PLATFORM)
        return client

    # Without it, JAX looks for no platform of this name.
    hardware_utils.has_visible_nvidia_gpu = lambda: True
    xla_bridge.register_plugin(
        _PLATFORM, priority=500, library_path=os.environ["STANDIN_DEVICE"], factory=make_client
    )


def counts() -> dict[str, int]:
    """Return how often each kind of thing has happened on the devices since the process began."""
    names = (
        "to_device to_device_bytes to_host to_host_bytes between_devices executions compilations"
    )
    return {name: ctypes.c_long.in_dll(_device, name).value for name in names.split()}


def delay(**milliseconds: float) -> None:
    """Delay what crosses from now on: ``to_device``, ``to_host``, each copy by so much."""
    for name, value in milliseconds.items():
        ctypes.c_int.in_dll(_device, f"{name}_delay").value = round(1000 * value)


def busy(x: Any, milliseconds: float) -> Any:
    """Return an array of floating-point numbers, but later, in a program for any device."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    wait = jax.ffi.ffi_call("standin_busy", jax.ShapeDtypeStruct(x.shape, x.dtype))
    x = wait(x, microseconds=np.int64(1000 * milliseconds))
    # XLA's CPU client runs what is cheaper than this in the thread that calls it.
    return x + 0 * jnp.sum(jnp.sin(jnp.arange(4096) + jnp.ravel(x)[0]))
