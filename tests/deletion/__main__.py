"""Delete abilities, each in a copy of the tree, and check what remains.

    python -m tests.deletion               all abilities
    python -m tests.deletion stim null     these
    python -m tests.deletion --in-turn 2   two, others each day

What remains must have no undefined names, keep the import contracts and the types, be importable,
and pass a small set of tests.
"""

import argparse
import datetime
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.deletion.abilities import ABILITIES, Ability
from tests.deletion.forget import forget

ROOT = Path(__file__).parents[2]
# Quick tests of circuits, callbacks, control flow and derivatives, on each backend that remains.
TESTS = (
    "tests/conformance/test_conformance.py",
    "tests/frontend/circuits/measure/test_circuit_measurements.py",
    "tests/frontend/callbacks/exceptions/test_exceptions_in_programs.py",
)
MYPY_CACHE = Path(tempfile.gettempdir()) / "bellhop-deletion-mypy"
QUICK = "quick or not (matrix or subprocess or memory or hessian or large or long)"
# Runs a module with Bellhop's frontend from the copy, wherever the environment has it installed.
RUN = """
import runpy, sys
from importlib.machinery import PathFinder

frontend = sys.argv[1]

class FromCopy:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "bellhop":
            return PathFinder.find_spec(name, path or [frontend])

sys.meta_path.insert(0, FromCopy())
sys.path.insert(0, "")
sys.argv[:2] = []
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def main() -> int:
    """Check the abilities that the command line names; return how many failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.deletion")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(ABILITIES)}")
    parser.add_argument("--in-turn", type=int, default=0)
    options = parser.parse_args()
    unknown = set(options.names) - set(ABILITIES)
    if unknown:
        parser.error(f"unknown abilities: {', '.join(sorted(unknown))}")
    names = options.names or choose_names(options.in_turn or len(ABILITIES))
    failed = [name for name in names if not check(name, ABILITIES[name])]
    print(f"{len(names) - len(failed)} of {len(names)} abilities can be deleted")
    return len(failed)


def choose_names(count: int) -> list[str]:
    """Return a number of abilities; each day they are the next ones."""
    names, first = list(ABILITIES), today().toordinal() * count
    return [names[(first + k) % len(names)] for k in range(count)]


def today() -> datetime.date:
    """Return the date."""
    return datetime.date.today()


def check(name: str, ability: Ability) -> bool:
    """Delete an ability in a copy of the tree; return whether the rest passes all checks."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        copy_tree(copy)
        delete(copy, ability)
        for what, command in list_checks(ability):
            done = subprocess.run(
                [sys.executable, "-c", RUN, str(copy / "frontend"), *command],
                cwd=copy,
                env=os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"},
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                print(f"{name}: {what} failed\n{done.stdout[-6000:]}{done.stderr[-3000:]}")
                return False
    print(f"{name}: can be deleted")
    return True


def copy_tree(copy: Path) -> None:
    """Copy the files of the working tree that Git tracks, or that are new."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for path in filter(lambda path: (ROOT / path).is_file(), listed.stdout.splitlines()):
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, copy / path, follow_symlinks=False)


def delete(copy: Path, ability: Ability) -> None:
    """Delete an ability's files and tests, and the entries that mention it.

    Raises:
        LookupError: if a pattern matches no file, or no entry mentions a word.
    """
    for pattern in (*ability.files, *ability.tests):
        found = list(copy.glob(pattern))
        if not found:
            raise LookupError(f"{pattern} matches no file")
        for path in found:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for file, words in ability.mentions.items():
        path = copy / file
        for word in words:
            path.write_text(forget(path.read_text(), word))


def list_checks(ability: Ability) -> list[tuple[str, list[str]]]:
    """Return the name and the command, a module with arguments, of each check."""
    left_out = ["-k", f"not ({ability.deselected})"] if ability.deselected else []
    return [
        ("undefined names", ["ruff", "check", "--quiet", "--select=F821,F822", "frontend"]),
        ("import contracts", ["importlinter.cli"]),
        ("types", ["mypy", f"--cache-dir={MYPY_CACHE}", "-p", "bellhop"]),
        ("imports", ["tests.deletion.import_all"]),
        ("tests", ["pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", QUICK, *left_out, *TESTS]),
    ]


if __name__ == "__main__":
    sys.exit(main())
