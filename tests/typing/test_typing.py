"""The public API is typed: strict mypy and pyright accept code as users write it."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import PATIENCE

USER_CODE = Path(__file__).with_name("user_code.py")
PACKAGES = ("bellhop", "bellhop_mlir", "bellhop_runtime")
STRICT = ["--strict", "--follow-imports=silent", "--config-file=", "--no-incremental"]


def _run(*command):
    return subprocess.run(
        [sys.executable, "-m", *map(str, command)], capture_output=True, text=True, timeout=PATIENCE
    )


def _mypy(file, folder):
    return _run("mypy", *STRICT, file)


def _basedpyright(file, folder):
    roots = {str(Path(importlib.util.find_spec(name).origin).parents[1]) for name in PACKAGES}
    # What JAX leaves open, such as the type of a device, is not ours to close.
    of_jax = ("Member", "Argument", "Lambda", "Variable", "Parameter")
    settings = {
        "include": [str(file)],
        "typeCheckingMode": "strict",
        "extraPaths": sorted(roots),
        "reportMissingTypeStubs": False,
    } | {f"reportUnknown{what}Type": False for what in of_jax}
    project = folder / "pyrightconfig.json"
    project.write_text(json.dumps(settings))
    return _run("basedpyright", "--project", project, "--pythonpath", sys.executable)


# basedpyright is pyright with its own Node: PyPI is all that it needs.
@pytest.fixture(params=[_mypy, _basedpyright], ids=["mypy", "pyright"])
def checker(request):
    pytest.importorskip(request.param.__name__[1:])
    return request.param


def test_user_code_is_accepted_with_the_types_that_it_asserts(checker, tmp_path):
    run = checker(USER_CODE, tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr


def test_user_code_runs(tmp_path):
    # Its stages are kept where it runs.
    run = subprocess.run(
        [sys.executable, str(USER_CODE)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stderr


def test_wrong_types_are_found(checker, tmp_path):
    wrong = tmp_path / "wrong.py"
    accepted = USER_CODE.read_text()
    # A text is no array; a number is none, and an argument is missing.
    wrong.write_text(accepted + '\nscaled("text")\nlayer(1)\n')
    run = checker(wrong, tmp_path)
    assert run.returncode == 1
    last = len(wrong.read_text().splitlines())
    flagged = {int(line) for line in re.findall(r"wrong\.py:(\d+).*error", run.stdout)}
    assert flagged == {last - 1, last}, run.stdout
