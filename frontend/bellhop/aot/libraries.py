"""Quantum devices' shared objects, by the package that they are part of."""

import importlib.util
import re
import sys
from pathlib import Path

from bellhop.errors import CompileError

_LIBRARY = re.compile(r'(?<=library = ")[^"]*(?=")')
_LIGHTNING_LIBRARY = re.compile(r"liblightning_(\w+)_catalyst\.\w+")
_PORTABLE = re.compile(r"package:(?P<package>[\w.]+)/(?P<file>.+)")


def make_portable(module: str) -> str:
    """Return a module's text with the libraries named by package instead of by path."""

    def portable(match: re.Match[str]) -> str:
        path = Path(match[0])
        for parent in path.parents:
            package = sys.modules.get(parent.name)
            if package is not None and str(parent) in getattr(package, "__path__", ()):
                return f"package:{parent.name}/{path.relative_to(parent).as_posix()}"
        return match[0]

    return _LIBRARY.sub(portable, module)


def make_local(module: str) -> str:
    """Return a module's text with the paths of this machine.

    Raises:
        CompileError: where a package is not installed, or of a version that is not supported.
    """

    def local(match: re.Match[str]) -> str:
        name = _PORTABLE.fullmatch(match[0])
        if name is None:
            return match[0]
        spec = importlib.util.find_spec(name["package"])
        for directory in (spec.submodule_search_locations or ()) if spec is not None else ():
            path = Path(directory) / name["file"]
            if path.exists():
                _check_version(name["package"], name["file"])
                return str(path)
        raise CompileError(
            f"the saved program runs circuits by {name['file']} of the package {name['package']}, "
            "which is not installed here. Install it."
        )

    return _LIBRARY.sub(local, module)


def _check_version(package: str, file: str) -> None:
    kind = _LIGHTNING_LIBRARY.fullmatch(file)
    if package == "pennylane_lightning" and kind is not None:
        from bellhop.circuits.device import check_version

        check_version(f"lightning.{kind[1]}")
