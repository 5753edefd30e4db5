"""XLA's machine code as bytes, for processes on equal machines.

Loading machine code can execute anything, like running a script.
"""

import hashlib
import os
import platform
from pathlib import Path
from typing import Any

import jax
import jaxlib
from jax.experimental import serialize_executable as serialization

from bellhop.devices.devices import host_device


def describe_machine() -> str:
    """Describe this machine as far as machine code depends on it, in one line.

    The text has the versions of JAX and jaxlib, the processor, the number of CPU devices and
    ``XLA_FLAGS``. Machine code in a file is used only where this text is equal to the saved text.
    """
    return (
        f"jax {jax.__version__}, jaxlib {jaxlib.__version__}, {platform.system()}, "
        f"{platform.machine()} with the features {_processor_features()}, "
        f"{len(jax.local_devices(backend='cpu'))} CPU devices, "
        f"XLA_FLAGS={os.environ.get('XLA_FLAGS', '').strip()!r}"
    )


def _processor_features() -> str:
    """Compute a digest of the processor's instruction set extensions: 16 hex digits."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        features = {platform.processor()}
    else:
        # Line names of x86 and Arm.
        features = {line for line in lines if line.startswith(("flags", "Features"))}
    return hashlib.sha256("\n".join(sorted(features)).encode()).hexdigest()[:16]


def serialize_executable(compiled: jax.stages.Compiled) -> bytes:
    """Return the machine code of an executable."""
    return serialization.serialize(compiled)[0]


def load_executable(code: bytes, lowered: jax.stages.Lowered) -> Any:
    """Load an executable from its machine code instead of compiling the program.

    Args:
        code: bytes from `serialize_executable`, from a trusted file: they can execute anything.
        lowered: the same program, lowered in this process; it gives the structures of arguments and
            results.

    Returns:
        JAX's ``Compiled``.
    """
    device = host_device()
    return serialization.deserialize_and_load(
        code,
        jax.tree.structure(lowered.args_info),
        lowered.out_tree,
        backend=device.client,
        execution_devices=[device],
    )
