"""What XLA compiled, as bytes that a process of the same kind runs.

Loading them runs whatever they hold, as a script does.
"""

import hashlib
import os
import platform
from pathlib import Path
from typing import Any

import jax
import jaxlib
from jax.experimental import serialize_executable

from bellhop.devices.devices import host_device


def here() -> str:
    """Say what machine code of this process depends on: versions, processor, devices, flags."""
    return (
        f"jax {jax.__version__}, jaxlib {jaxlib.__version__}, {platform.system()}, "
        f"{platform.machine()} with the features {_processor_features()}, "
        f"{len(jax.local_devices(backend='cpu'))} CPU devices, "
        f"XLA_FLAGS={os.environ.get('XLA_FLAGS', '').strip()!r}"
    )


def _processor_features() -> str:
    """Return a short digest of the instructions that the processor has."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        features = {platform.processor()}
    else:
        # As x86 and as Arm call them.
        features = {line for line in lines if line.startswith(("flags", "Features"))}
    return hashlib.sha256("\n".join(sorted(features)).encode()).hexdigest()[:16]


def machine_code(compiled: jax.stages.Compiled) -> bytes:
    """Return an executable as bytes."""
    return serialize_executable.serialize(compiled)[0]


def executable(code: bytes, lowered: jax.stages.Lowered) -> Any:
    """Return JAX's ``Compiled`` of what was lowered, from the bytes that it was saved as."""
    device = host_device()
    return serialize_executable.deserialize_and_load(
        code,
        jax.tree.structure(lowered.args_info),
        lowered.out_tree,
        backend=device.client,
        execution_devices=[device],
    )
