"""Names of regions, which pass the device and the function name to the compiler."""

import re
from typing import NamedTuple

_PATTERN = re.compile(r"accelerate_([a-z]+)_(\d+)__")
# Locations contain the names of all enclosing jits; JAX adds suffixes to symbols, but not here.
_IN_LOCATION = re.compile(rf"jit\((?:{_PATTERN.pattern})(\w+)\)")


class RegionName(NamedTuple):
    """The name of a region: ``accelerate_cuda_0__expm``.

    Attributes:
        device: device as ``cuda:0``.
        function: name of the user's function; if parsed from a symbol, with JAX's suffix.
    """

    device: str
    function: str

    def __str__(self) -> str:
        """Return the name as a symbol."""
        stem = "".join(c if c.isalnum() else "_" for c in self.function)
        return f"accelerate_{self.device.replace(':', '_')}__{stem}"

    @classmethod
    def parse(cls, name: str) -> "RegionName | None":
        """Parse the name of a region; return None for other names."""
        match = _PATTERN.match(name)
        return match and cls(":".join(match.groups()), name[match.end() :])


def find_region_functions(location: str) -> list[str]:
    """Return the names of the user's functions of the regions in a location."""
    return list(dict.fromkeys(match[2] for match in _IN_LOCATION.findall(location)))
