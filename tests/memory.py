"""How much memory a process holds of its own."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.needs import LINUX

_STATUS = Path("/proc/self/status")


def needs_private_bytes(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that asks for them: until a leak would show."""
    return pytest.mark.memory(LINUX.unless(_STATUS.exists())(test))


def private_bytes() -> int:
    """Return the memory that no file stands behind, in bytes, after a collection of garbage.

    Pages of libraries come and go with what other processes need; those that the kernel moved
    to swap are held still.
    """
    gc.collect()
    status = _STATUS.read_text()
    return sum(int(kb) << 10 for kb in re.findall(r"^(?:RssAnon|VmSwap):\s+(\d+) kB", status, re.M))
