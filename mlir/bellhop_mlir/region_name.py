"""What jitted regions are called, which is all that reaches the compiler of their device."""

import re
from typing import NamedTuple

_PATTERN = re.compile(r"accelerate_([a-z]+)_(\d+)__")
# A location names all jits around an operation; JAX lengthens symbols, but not these.
_IN_LOCATION = re.compile(rf"jit\((?:{_PATTERN.pattern})(\w+)\)")


class RegionName(NamedTuple):
    """The name of a region: ``accelerate_cuda_0__expm``.

    Attributes:
        device: as ``cuda:0``.
        function: what the user's function is called; from a symbol, with what JAX added to it.
    """

    device: str
    function: str

    def __str__(self) -> str:
        """Return the name."""
        stem = "".join(c if c.isalnum() else "_" for c in self.function)
        return f"accelerate_{self.device.replace(':', '_')}__{stem}"

    @classmethod
    def parse(cls, name: str) -> "RegionName | None":
        """Return the parts of the name of a region; None for other names."""
        match = _PATTERN.match(name)
        return match and cls(":".join(match.groups()), name[match.end() :])


def find_region_functions(location: str) -> list[str]:
    """Return what the user's functions of the regions in a location are called."""
    return list(dict.fromkeys(match[2] for match in _IN_LOCATION.findall(location)))
