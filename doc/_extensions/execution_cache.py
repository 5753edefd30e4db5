"""Find the folder that keeps executed pages for the installed packages."""

import hashlib
import importlib.metadata
import importlib.util
from pathlib import Path

DOC = Path(__file__).parents[1]
PACKAGES = ("bellhop", "bellhop_mlir", "bellhop_runtime")
DEPENDENCIES = ("jax", "jaxlib", "numpy", "scipy", "pennylane", "pennylane-lightning")


def find_execution_cache() -> Path:
    """Return the folder of the executed pages, named after all that their outputs depend on.

    jupyter-cache finds an executed page by the page's code. The outputs depend on the installed
    packages and the examples too, so each state of these has a folder of its own.
    """
    digest = hashlib.sha256()
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            _update(digest, Path(folder))
    _update(digest, DOC.parent / "examples")
    for name in DEPENDENCIES:
        digest.update(f"{name} {importlib.metadata.version(name)}".encode())
    return DOC / "_build" / "executed" / digest.hexdigest()[:16]


def _update(digest: "hashlib._Hash", folder: Path) -> None:
    """Add the paths and contents of a folder's files, byte code left out, to a digest."""
    for file in sorted(folder.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            digest.update(str(file.relative_to(folder)).encode())
            digest.update(file.read_bytes())
