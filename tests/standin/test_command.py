"""Programs that are started with the stand-in see a GPU, in either order."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import PATIENCE
from tests.standin.build import UnavailableError, environment


def run_for_both_orders(*arguments):
    try:
        environment()
    except UnavailableError as error:
        error.need.skip()
    return subprocess.run(
        [sys.executable, "-m", "tests.standin", sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    ).stdout


@pytest.mark.subprocess
def test_command_runs_for_both_orders():
    script = "import jax; print(jax.default_backend(), len(jax.devices('gpu')))"
    lines = run_for_both_orders("-c", script).splitlines()
    assert [line.split()[0] for line in lines] == ["gpu", "cpu"]


@pytest.mark.subprocess
def test_tests_marked_gpu_run_whichever_device_is_the_default():
    test = f"{Path(__file__).with_name('test_standin.py')}::test_crossings_are_counted"
    printed = run_for_both_orders("-m", "pytest", "-p", "no:cacheprovider", "-rs", test)
    assert "SKIPPED" not in printed
    assert printed.count("1 passed") == 2
