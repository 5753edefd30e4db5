"""Programs that are started with the stand-in see a GPU, in either order."""

import subprocess
import sys

import pytest
from tests.patience import PATIENCE
from tests.standin.build import UnavailableError, environment


@pytest.mark.subprocess
def test_command_runs_for_both_orders():
    try:
        environment()
    except UnavailableError as error:
        error.need.skip()
    script = "import jax; print(jax.default_backend(), len(jax.devices('gpu')))"
    done = subprocess.run(
        [sys.executable, "-m", "tests.standin", sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["gpu", "cpu"]
