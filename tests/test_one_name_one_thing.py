"""No two files of a package have one name, and no two classes of the Python code."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest
from tests.raise_sites import ROOT

PACKAGES = ("frontend/bellhop", "mlir/bellhop_mlir", "runtime/python/bellhop_runtime")


def files_of(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*.py") if not file.name.startswith("__")]


def twins(named: list[tuple[str, Path]]) -> dict[str, list[str]]:
    """Return the files of each name that more than one has."""
    found = defaultdict(list)
    for name, file in named:
        found[name].append(str(file.relative_to(ROOT)))
    return {name: files for name, files in found.items() if len(files) > 1}


def classes_of(file: Path) -> list[tuple[str, Path]]:
    """Return the classes of a module; a private one is nobody's twin by its underscore alone."""
    tree = ast.parse(file.read_text())
    return [(n.name.lstrip("_"), file) for n in tree.body if isinstance(n, ast.ClassDef)]


@pytest.mark.parametrize("package", PACKAGES)
def test_files(package: str) -> None:
    assert twins([(file.name, file) for file in files_of(ROOT / package)]) == {}


def test_classes() -> None:
    files = [file for package in PACKAGES for file in files_of(ROOT / package)]
    assert twins([named for file in files for named in classes_of(file)]) == {}


def test_twins_are_found() -> None:
    one, other = ROOT / "one" / "run.py", ROOT / "other" / "run.py"
    assert twins([("run.py", one), ("run.py", other)]) == {"run.py": ["one/run.py", "other/run.py"]}
