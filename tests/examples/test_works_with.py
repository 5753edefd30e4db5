"""The programs of doc/how-to/works-with.md run where their libraries are installed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests import needs
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "examples" / "works_with"
# The last line that each program prints.
PRINTED = {
    "optax": r"energy -1\.1180",
    "equinox": r"loss 0\.00\d, again by filter_jit 0\.00\d",
    "flax": r"loss 0\.00\d",
    "optimistix": r"exact 1\.266104, slope -1\.048285",
    "diffrax": r"angle 0\.277699, slope 0\.585495, by differences 0\.585495",
    "numpyro": r"angle 1\.(39|40) \+- 0\.0\d",
    "blackjax": r"angle 1\.(39|40) \+- 0\.0\d",
    "pytorch": r"loss 0\.00\d",
    "scipy": r"minimum -1\.000000",
    "optimizers": r"energy -1\.00, angle 3\.1\d",
    "pyscf": r"-1\.13731 hartree at 1\.389 bohr",
}
LIBRARIES = {
    "equinox": needs.EQUINOX,
    "flax": needs.FLAX,
    "optimistix": needs.OPTIMISTIX,
    "diffrax": needs.DIFFRAX,
    "numpyro": needs.NUMPYRO,
    "blackjax": needs.BLACKJAX,
    "pytorch": needs.PYTORCH,
    "pyscf": needs.PYSCF,
}


@pytest.mark.subprocess
@pytest.mark.parametrize("library", needs.params(PRINTED, LIBRARIES))
def test_program(library):
    completed = subprocess.run(
        [sys.executable, str(PROGRAMS / f"with_{library}.py")],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert completed.returncode == 0, completed.stderr
    assert re.fullmatch(PRINTED[library], completed.stdout.splitlines()[-1])
    assert "before bellhop was imported" not in completed.stderr


def test_page_shows_all_programs():
    page = (ROOT / "doc" / "how-to" / "works-with.md").read_text()
    shown = re.findall(r"literalinclude\} .*/with_(\w+)\.py", page)
    assert shown == list(PRINTED)
    assert {file.stem for file in PROGRAMS.glob("*.py")} == {f"with_{name}" for name in PRINTED}
