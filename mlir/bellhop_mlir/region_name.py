"""Names of regions, which pass the device and the function name to the compiler."""

import re
from typing import NamedTuple

_PATTERN = re.compile(r"accelerate_([a-z]+)_(\d+)__")
# Locations contain the names of all enclosing jits; JAX adds suffixes to symbols, but not here.
_IN_LOCATION = re.compile(rf"jit\((?:{_PATTERN.pattern})(\w+)\)")


class RegionName(NamedTuple):
    """Device and name of a user's function that ``bellhop.accelerate`` runs on a device.

    The frontend encodes both in the function's symbol, ``accelerate_cuda_0__expm``, from which the
    pass outline-regions reads the device.

    Attributes:
        device: device as ``cuda:0``.
        function: name of the user's function; if parsed from a symbol, with the suffix that JAX may
            have added.
    """

    device: str
    function: str

    def __str__(self) -> str:
        """Return the symbol, such as ``accelerate_cuda_0__expm``.

        Characters of the function's name that are not alphanumeric become underscores.
        """
        stem = "".join(c if c.isalnum() else "_" for c in self.function)
        return f"accelerate_{self.device.replace(':', '_')}__{stem}"

    @classmethod
    def parse(cls, name: str) -> "RegionName | None":
        """Read device and function from a symbol; return None for other symbols.

        ``accelerate_cuda_0__expm_1`` has the device ``cuda:0`` and the function ``expm_1``.
        """
        match = _PATTERN.match(name)
        return match and cls(":".join(match.groups()), name[match.end() :])


def find_region_functions(location: str) -> list[str]:
    """Find the functions run by ``bellhop.accelerate`` that an MLIR location mentions.

    Args:
        location: text of a location, with the names of all enclosing ``jit`` functions, such as
            ``jit(f)/jit(accelerate_cuda_0__expm)/dot_general``, in which ``expm`` is found.

    Returns:
        the names of the user's functions without device, each once, in the order of the text.
    """
    return list(dict.fromkeys(match[2] for match in _IN_LOCATION.findall(location)))
