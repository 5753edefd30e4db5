"""``python -m bellhop doctor``."""

import io
import re
import subprocess
import sys

import jax
import pytest
from rich.console import Console
from tests.patience import PATIENCE

from bellhop import doctor
from bellhop.__main__ import main


def _screen(monkeypatch, verbose=False, **replaced):
    for name, function in replaced.items():
        monkeypatch.setattr(doctor, name, function)
    screen = io.StringIO()
    status = doctor.examine(Console(file=screen, width=200), verbose=verbose)
    return status, screen.getvalue()


def _found_by_pennylane():
    return doctor.Finding("compiler", True, "")


def test_a_good_installation(monkeypatch):
    status, screen = _screen(monkeypatch, _check_compiler=_found_by_pennylane)
    assert status == 0
    devices = [f"ok  circuit on {name}" for name in ("default.qubit", "lightning.qubit")]
    for line in ("ok  callback", "ok  region on cpu:0", *devices):
        assert line in screen
    assert "(with the GIL)" in screen or "(free-threaded, the GIL is " in screen
    assert screen.endswith("All checks passed.\n")
    if all(device.platform == "cpu" for device in doctor.all_devices()):
        assert "GPUs and TPUs" in screen
        assert 'JAX found none; for NVIDIA GPUs: pip install "jax[cuda12]"' in screen
    assert "engine for circuits" not in screen
    assert "up to 32 qubits, " in doctor._check_engine().detail
    monkeypatch.setenv("BELLHOP_ENGINE", "plugin")
    _, screen = _screen(monkeypatch, verbose=True)
    assert "not used: BELLHOP_ENGINE=plugin" in screen
    assert "replaced parts" in screen
    assert "no  " not in screen


def test_a_crossing_is_timed(monkeypatch):
    _, screen = _screen(monkeypatch)
    (here,) = (line for line in screen.splitlines() if "region on cpu:0" in line)
    (other,) = (line for line in screen.splitlines() if "region on cpu:1" in line)
    assert "there and back" not in here
    assert re.search(r"there and back in \d+ us", other)


@pytest.mark.gpu
def test_devices_of_all_platforms_are_tried(monkeypatch):
    _, screen = _screen(monkeypatch)
    for device in (*jax.devices("gpu"), *jax.devices("cpu")):
        assert f"ok  region on {device.platform}:{device.id}" in screen


def test_what_fails_is_named_with_advice(monkeypatch):
    def broken():
        raise OSError("no such library\nand more")

    status, screen = _screen(monkeypatch, _check_compiler=_found_by_pennylane, _run_callback=broken)
    assert status == 1
    assert "no  callback" in screen
    assert "callback: OSError: no such library\n" in screen
    assert screen.endswith("\n1 check failed.\n")
    assert "ok  region on cpu:0" in screen


def test_a_wrong_result_is_a_failure(monkeypatch):
    def wrong():
        doctor._expect(2.0, 3.0)

    status, screen = _screen(monkeypatch, _check_compiler=_found_by_pennylane, _run_callback=wrong)
    assert status == 1
    assert "The result is 2.0 and should be 3.0" in screen


def test_a_missing_package_and_an_unknown_version_are_named(monkeypatch):
    def version(package):
        if package == "pennylane":
            raise doctor.importlib.metadata.PackageNotFoundError(package)
        return {"pennylane-lightning": "0.46.1"}.get(package) or installed(package)

    installed = doctor.importlib.metadata.version
    monkeypatch.setattr(doctor.importlib.metadata, "version", version)
    finding = doctor._check_versions()
    assert finding.works is False
    assert finding.advice.endswith(
        'pip install "pennylane>=0.45,<0.46" "pennylane-lightning>=0.45,<0.46"'
    )


def test_the_version(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert re.fullmatch(r"bellhop \d+\.\S+\n", capsys.readouterr().out)


@pytest.mark.subprocess
@pytest.mark.parametrize(("arguments", "status"), [(["doctor"], None), ([], 0), (["nurse"], 2)])
def test_command_line(arguments, status):
    run = subprocess.run(
        [sys.executable, "-m", "bellhop", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    if status is not None:
        assert run.returncode == status
    assert "doctor" in run.stdout + run.stderr or "versions" in run.stdout
