"""The public API is typed: mypy --strict accepts code as users write it."""

import subprocess
import sys
from pathlib import Path

import pytest

USER_CODE = Path(__file__).with_name("user_code.py")
STRICT = ["-m", "mypy", "--strict", "--follow-imports=silent", "--config-file=", "--no-incremental"]


def _mypy(file):
    return subprocess.run(
        [sys.executable, *STRICT, str(file)], capture_output=True, text=True, timeout=300
    )


def test_user_code_is_accepted_with_the_types_that_it_asserts():
    pytest.importorskip("mypy")
    run = _mypy(USER_CODE)
    assert run.returncode == 0, run.stdout


def test_user_code_runs(tmp_path):
    # Its stages are kept where it runs.
    run = subprocess.run(
        [sys.executable, str(USER_CODE)], capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert run.returncode == 0, run.stderr


def test_wrong_types_are_found(tmp_path):
    pytest.importorskip("mypy")
    wrong = tmp_path / "wrong.py"
    wrong.write_text(USER_CODE.read_text() + '\nscaled("text")\nlayer(1)\n')
    run = _mypy(wrong)
    assert run.returncode == 1
    assert '"scaled"' in run.stdout or '"__call__"' in run.stdout
    assert "Found 3 errors" in run.stdout, run.stdout
