"""Runs one text under two meanings: what differs is what its imports find."""

import builtins
import linecache
from collections.abc import Mapping
from typing import Any

from .references import python_bellhop, python_torch
from .references.python_jax import PythonJax
from .references.uncompiled_pennylane import UncompiledPennyLane

REFERENCE: Mapping[str, Any] = {
    "bellhop": python_bellhop,
    "jax": PythonJax(),
    "pennylane": UncompiledPennyLane(),
    "torch": python_torch,
}


def run(source: str, imports: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Run a script whose imports find other modules; return its names."""

    def importing(module: str, *details: Any) -> Any:
        return imports.get(module.split(".")[0]) or __import__(module, *details)

    # Autograph reads the source.
    linecache.cache[f"<{name}>"] = len(source), None, source.splitlines(keepends=True), f"<{name}>"
    names = {"__builtins__": {**vars(builtins), "__import__": importing}, "__name__": name}
    exec(compile(source, f"<{name}>", "exec"), names)
    return names
