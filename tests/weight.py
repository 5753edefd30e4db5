"""How heavy the tree is: lines and files by room, what circuits are made of, untyped parameters.

``python -m tests.weight`` prints it, and what ``tests.gate_path`` counts of first calls;
``doc/architecture/README.md`` has the record.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests import gate_path

ROOT = gate_path.ROOT
FRONTEND, MLIR, RUNTIME = (
    ROOT / part for part in ("frontend/bellhop", "mlir/bellhop_mlir", "runtime")
)
CIRCUITS = FRONTEND / "circuits"
SUFFIXES = (".py", ".cc", ".h", ".toml")


def sources(folder: Path) -> list[Path]:
    """Return the files of a folder that somebody writes."""
    found = (path for path in folder.rglob("*") if path.suffix in SUFFIXES)
    return sorted(path for path in found if not path.is_symlink())


def lines(paths: list[Path]) -> int:
    """Return how many lines files have."""
    return sum(len(path.read_text().splitlines()) for path in paths)


def iterate_packages(folder: Path) -> Iterator[tuple[str, list[Path]]]:
    """Yield the rooms of a folder, by name, with their files; those at the top first."""
    yield "top", [path for path in sources(folder) if path.parent == folder]
    for room in sorted(path for path in folder.iterdir() if path.is_dir()):
        if found := sources(room):
            yield room.name, found


def trees(folder: Path) -> Iterator[ast.Module]:
    """Yield the syntax trees of a folder's Python files."""
    for path in sources(folder):
        if path.suffix == ".py":
            yield ast.parse(path.read_text())


def circuit_classes() -> list[str]:
    """Return the names of classes that are circuits, by their names."""
    names = (
        node.name
        for tree in trees(CIRCUITS)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    )
    return sorted(name for name in names if name.endswith("Circuit"))


def primitives() -> list[str]:
    """Return the names of the primitives of circuits."""
    return sorted(
        ast.unparse(node.args[0])
        for tree in trees(CIRCUITS)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "Primitive"
    )


def annotations(tree: ast.Module) -> Iterator[ast.expr | None]:
    """Yield what is written of the type of each parameter."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            of = node.args
            named = [*of.posonlyargs, *of.args, *of.kwonlyargs, of.vararg, of.kwarg]
            for each in named:
                if each is not None and each.arg not in ("self", "cls"):
                    yield each.annotation


def count_untyped(folder: Path) -> tuple[int, int]:
    """Return how many parameters are ``Any``, and how many there are."""
    counts = Counter(
        isinstance(each, ast.Name) and each.id == "Any"
        for tree in trees(folder)
        for each in annotations(tree)
    )
    return counts[True], counts.total()


def statements(folder: Path) -> int:
    """Return how many lines are neither imports nor docstrings nor comments nor empty."""
    count = 0
    for path in sources(folder):
        text = path.read_text()
        left = {
            number
            for number, line in enumerate(text.splitlines(), 1)
            if line.strip() and not line.strip().startswith("#")
        }
        for node in ast.walk(ast.parse(text)):
            is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if is_text or isinstance(node, ast.Import | ast.ImportFrom):
                left.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        count += len(left)
    return count


def main() -> None:
    for folder in (FRONTEND, CIRCUITS, MLIR, RUNTIME):
        paths = sources(folder)
        print(f"{folder.relative_to(ROOT)!s:<32}{lines(paths):>8} lines{len(paths):>6} files")
        for name, found in iterate_packages(folder):
            print(f"  {name:<30}{lines(found):>8}{len(found):>12}")
    print(f"of {CIRCUITS.relative_to(ROOT)}, {statements(CIRCUITS)} lines are statements")
    for what, names in ("circuit classes", circuit_classes()), ("primitives", primitives()):
        print(f"{what}: {len(names)} ({', '.join(names)})")
    for folder in (FRONTEND, CIRCUITS, MLIR):
        untyped_, all_ = count_untyped(folder)
        print(f"Any: {untyped_} of {all_} parameters of {folder.relative_to(ROOT)}")
    gate_path.main([])


if __name__ == "__main__":
    main()
