"""Write ``doc/reference/callback-transformations.md``."""

import os
import warnings
from pathlib import Path

# Before JAX starts: shard_map and accelerate need a second device.
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
)
# PennyLane's, of JAX's version.
warnings.simplefilter("ignore")

from .table import document  # noqa: E402

DOCUMENT = Path(__file__).parents[3] / "doc" / "reference" / "callback-transformations.md"
DOCUMENT.write_text(document())
