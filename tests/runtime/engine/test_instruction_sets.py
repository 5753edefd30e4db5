"""The engine's sweeps for each instruction set, those that run elsewhere too."""

import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.needs import Need

ROOT = Path(__file__).parents[3]
CHECK = Path(__file__).with_name("sweeps_check.cc")
# As CMakeLists.txt has them.
OPTIONS = ["-O3", "-ffp-contract=fast", "-fno-math-errno", "-fno-strict-aliasing", "-Wno-psabi"]
HERE = ("c++", [])
ARM = ("aarch64-linux-gnu-g++", ["qemu-aarch64-static"])
SETS = {
    "baseline": ("portable", [], HERE, 2),
    "AVX2": ("avx2", ["-mavx2", "-mfma"], HERE, 4),
    "AVX-512": ("avx512", ["-mavx512f", "-mavx512dq", "-mfma"], HERE, 8),
    "aarch64": ("portable", [], ARM, 2),
}


PACKAGES = {
    "c++": "g++",
    "aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu",
    "qemu-aarch64-static": "qemu-user-static",
}


def _flags():
    found = Path("/proc/cpuinfo")
    return found.read_text() if found.exists() else ""


def test_options_are_those_of_the_build():
    build = (ROOT / "CMakeLists.txt").read_text()
    assert " ".join(OPTIONS) in build
    for _, options, _, _ in SETS.values():
        assert " ".join(options) in build


@pytest.mark.long
@pytest.mark.parametrize("real", ["double", "float"])
@pytest.mark.parametrize("name", SETS)
def test_sweeps_agree_with_their_definitions(name, real, tmp_path):
    source, options, (compiler, emulator), lanes = SETS[name]
    if real == "float":
        source, lanes = f"{source}_single", 2 * lanes
    if name.startswith("AVX") and name.lower().replace("-", "") not in _flags():
        Need(f"a processor with {name}", "make test-long on one").skip()
    if name == "baseline" and platform.machine() not in ("x86_64", "AMD64"):
        Need("an x86 processor", "make test-long on one").skip()
    for tool in (compiler, *emulator):
        if shutil.which(tool) is None:
            Need(tool, f"apt-get install {PACKAGES[tool]}").skip()
    common = [compiler, "-std=c++20", f"-I{ROOT / 'runtime'}"]
    sweeps = ROOT / "runtime" / "kernels" / f"kernels_{source}.cc"
    built, check = tmp_path / "sweeps.o", tmp_path / "check"
    subprocess.run([*common, *OPTIONS, *options, "-c", sweeps, "-o", built], check=True)
    subprocess.run(
        [*common, "-O1", "-Wno-psabi", f"-DBELLHOP_CHECKED={source}"]
        + [f"-DBELLHOP_REAL={real}", CHECK, built, "-static", "-o", check],
        check=True,
    )
    ran = subprocess.run([*emulator, check], capture_output=True, text=True)
    assert (ran.stdout, ran.returncode) == (f"{lanes} lanes\n", 0)
