"""What is missing on a machine is named, with what installs it, and skips nothing else."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests import needs
from tests.patience import PATIENCE

TESTS = Path(__file__).parent


def test_a_missing_package_is_skipped_by_name(monkeypatch):
    missing = needs.Installed("Nothing", "pip install nothing", "pennylane.nothing.at_all")
    assert not missing.is_here
    monkeypatch.setattr(needs, "HAS_ALL", False)
    with pytest.raises(pytest.skip.Exception, match="needs Nothing: pip install nothing"):
        missing.import_module()
    monkeypatch.setattr(needs, "HAS_ALL", True)
    with pytest.raises(ModuleNotFoundError):
        missing.import_module()


def test_a_module_that_imports_what_may_be_missing_is_marked():
    for path in TESTS.rglob("test_*.py"):
        text = path.read_text()
        for name in re.findall(r"^(?:\w+ = )?([A-Z]+)\.imported\(\)", text, re.M):
            assert re.search(rf"^pytestmark = {name}\.mark", text, re.M), path


def test_every_skip_names_the_command_that_would_run_the_test():
    with pytest.raises(ValueError, match="not 'JAX sees one GPU'"):
        needs.Need("two GPUs", "JAX sees one GPU")
    skips = re.compile(r"pytest\.(skip|importorskip|mark\.skip(if)?)\(|unittest\.skip")
    found = {
        str(path.relative_to(TESTS))
        for path in TESTS.rglob("*.py")
        if path != Path(__file__) and skips.search(path.read_text())
    }
    assert found == {"needs.py"}


@pytest.mark.subprocess
def test_without_pytorch_the_tests_that_need_it_are_skipped_and_no_others(tmp_path):
    """In an interpreter that finds no PyTorch, whether or not there is one."""
    (tmp_path / "hide_torch.py").write_text(
        "import importlib.util, sys\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *a: None if name == 'torch' else find(name, *a)\n"
        "class Hidden:\n"
        "    def find_spec(name, *a):\n"
        "        if name == 'torch': raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Hidden)\n"
    )
    files = ["frontend/callbacks/values/test_result_type.py", "frontend/frameworks"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "hide_torch", "-p", "no:cacheprovider", "-n0"]
        + ["-k", "a_shape_that_no_array_has or torch_function or network", *files],
        env={**needs.os.environ, "PYTHONPATH": str(tmp_path), "BELLHOP_TESTS_HAVE_ALL": ""},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=TESTS,
    )
    assert run.returncode == 0, run.stdout
    assert "needs PyTorch: pip install torch" in run.stdout
    assert re.search(r"[1-9]\d* passed", run.stdout), run.stdout
