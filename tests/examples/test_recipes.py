"""The programs of doc/how-to/recipes.md run where their libraries are installed."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests import needs
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "examples" / "recipes"


def run(name: str, folder: Path) -> str:
    completed = subprocess.run(
        [sys.executable, str(PROGRAMS / name), str(folder / "out")],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=folder,
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


@pytest.mark.subprocess
@needs.TENSORBOARD.mark
def test_tensorboard_gets_all_values(tmp_path):
    run("log_to_tensorboard.py", tmp_path)
    [file] = (tmp_path / "out").glob("events.out.tfevents.*")
    assert file.read_bytes().count(b"loss") == 100


@pytest.mark.subprocess
@needs.WANDB.mark
def test_wandb_gets_a_run(tmp_path):
    run("log_to_wandb.py", tmp_path)
    [file] = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    assert file.read_bytes().count(b"loss") >= 100


@pytest.mark.subprocess
@needs.ORBAX.mark
def test_training_resumes_from_the_last_checkpoint(tmp_path):
    lines = [run("resume_from_checkpoint.py", tmp_path).splitlines() for _ in range(2)]
    blocks = [[int(line.split()[1].rstrip(":")) for line in part] for part in lines]
    energies = [float(line.split()[-1]) for part in lines for line in part]
    assert blocks == [[0, 1, 2], [3, 4, 5]]
    assert energies[-1] < energies[3] + 1e-3 < energies[0]


def test_page_shows_all_programs():
    page = (ROOT / "doc" / "how-to" / "recipes.md").read_text()
    assert all(f"examples/recipes/{file.name}\n" in page for file in PROGRAMS.glob("*.py"))
