"""The public API is typed: strict mypy and pyright accept code as users write it."""

import importlib.util
import json
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest
from tests.patience import PATIENCE

import bellhop
from bellhop.tracing.options import OptionsByName

pytestmark = pytest.mark.subprocess

USER_CODE = Path(__file__).with_name("user_code.py")
PACKAGES = ("bellhop", "bellhop_mlir", "bellhop_runtime")
# A text is no array; a number is none, and an argument is missing; names that there are not.
WRONG = (
    'scaled("text")',
    "layer(1)",
    "bellhop.nope()",
    "bellhop.qjit(scaled, sed=3)",
    "scaled.mlri",
    'bellhop.grad(loss)("text")',
    'bellhop.vmap(two)(jnp.ones(3), scale="text")',
    "bellhop.jacobian(loss)()",
    'summed("text")',
    'grown("text")',
    "branch(1, 2)",
    'thirded("text")',
)
STRICT = ["--strict", "--follow-imports=silent", "--config-file=", "--no-incremental"]


def _run(*command):
    return subprocess.run(
        [sys.executable, "-m", *map(str, command)], capture_output=True, text=True, timeout=PATIENCE
    )


def _mypy(files, folder):
    return _run("mypy", *STRICT, *files)


def _basedpyright(files, folder):
    roots = {str(Path(importlib.util.find_spec(name).origin).parents[1]) for name in PACKAGES}
    # What JAX leaves open, such as the type of a device, is not ours to close.
    of_jax = ("Member", "Argument", "Lambda", "Variable", "Parameter")
    settings = {
        "include": [str(file) for file in files],
        "typeCheckingMode": "strict",
        "extraPaths": sorted(roots),
        "reportMissingTypeStubs": False,
    } | {f"reportUnknown{what}Type": False for what in of_jax}
    project = folder / "pyrightconfig.json"
    project.write_text(json.dumps(settings))
    return _run("basedpyright", "--project", project, "--pythonpath", sys.executable)


# basedpyright is pyright with its own Node: PyPI is all that it needs.
@pytest.fixture(scope="module", params=[_mypy, _basedpyright], ids=["mypy", "pyright"])
def checked(request, tmp_path_factory):
    """Check code as users write it, and the same with wrong lines at its end, in one run."""
    folder = tmp_path_factory.mktemp("typed")
    right, wrong = folder / "right.py", folder / "wrong.py"
    accepted = USER_CODE.read_text()
    right.write_text(accepted)
    wrong.write_text("\n".join([accepted, *WRONG, ""]))
    run = request.param([right, wrong], folder)
    assert "error" in run.stdout, run.stderr
    return run


def errors(run, name):
    return {int(line) for line in re.findall(rf"{name}\.py:(\d+).*error", run.stdout)}


def test_user_code_is_accepted_with_the_types_that_it_asserts(checked):
    assert errors(checked, "right") == set(), checked.stdout


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


def test_the_options_of_qjit_are_those_of_compile_options():
    fields = typing.get_type_hints(bellhop.CompileOptions)
    assert typing.get_type_hints(OptionsByName) == fields


def test_wrong_types_are_found(checked):
    first = len(USER_CODE.read_text().splitlines()) + 2
    assert errors(checked, "wrong") == set(range(first, first + len(WRONG))), checked.stdout
    assert checked.returncode == 1
