"""The report of a GPU is whole whatever its steps do, and ends in time."""

import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.gpu_report import first_calls, runner, steps, summary
from benchmarks.gpu_report.gpu_tests import make_test_command
from benchmarks.gpu_report.report_file import Report, find_records
from benchmarks.gpu_report.runner import Child
from benchmarks.gpu_report.steps import Step, run_steps
from tests.patience import PATIENCE, wait_until

# The coordinator of the report imports no JAX. The process of this test may have imported it.
pytestmark = pytest.mark.filterwarnings("ignore:os.fork")

RECORD = """
import os, subprocess, sys, time
def record(text):
    with open(os.environ["GPU_REPORT_RECORDS"], "a") as file:
        file.write(text)
record('{"name": "pid", "ok": true, "pid": %d}\\n' % os.getpid())
"""
FAIL = "print('before'); record('{\"name\": \"unfini'); sys.exit(3)"
# Nothing but SIGKILL ends it, nor what it has started.
HANG = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
record('{"name": "pid", "ok": true, "pid": %d}\\n' % child.pid)
time.sleep(600)
"""


def step(name, *scripts, seconds=60.0, at_once=1):
    children = [
        Child(f"{name} {n}", (sys.executable, "-S", "-c", RECORD + script), seconds)
        for n, script in enumerate(scripts)
    ]
    return Step(name, name.title(), 60, 0, lambda _: children, at_once)


def list_pids(step):
    return [record["pid"] for child in step["children"] for record in child["records"]]


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def read(folder):
    """Return the report, whose files are whole."""
    assert (folder / "report.md").read_text().endswith("\n")
    return json.loads((folder / "report.json").read_text())


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run steps and return the report."""
    monkeypatch.setattr(runner, "SHORTEST", 0.0)
    monkeypatch.setattr(os, "environ", dict(os.environ))

    def run(*listed, seconds=60.0):
        output, files = tmp_path / "output", tmp_path / "files"
        output.mkdir(), files.mkdir()
        run_steps(Report(output, "today", 1), listed, seconds, files)
        return read(output)

    return run


def test_steps_that_fail_and_hang_take_nothing_with_them(run):
    broken = Step("broken", "Broken", 60, 0, lambda _: 1 / 0)
    report = run(
        step("fails", FAIL, ""), step("hangs", HANG, seconds=2.5), broken, step("ends", "")
    )
    fails, hangs, broken, ends = report["steps"]
    states = [(child["state"], child["detail"]) for child in fails["children"]]
    assert states == [("failed", "exit status 3"), ("finished", "")]
    # The line that it had not finished is left out.
    assert len(list_pids(fails)) == 2
    assert fails["children"][0]["output"] == "before\n"
    assert hangs["children"][0]["detail"].startswith("stopped after")
    pids = list_pids(hangs)
    assert len(pids) == 2
    wait_until(lambda: not any(map(is_running, pids)))
    assert "ZeroDivisionError" in broken["detail"]
    assert [each["state"] for each in report["steps"]] == ["failed", "failed", "failed", "done"]
    assert (ends["children"][0]["state"], report["state"]) == ("finished", "complete")


def test_it_ends_in_time_and_leaves_later_steps_theirs(run):
    hangs = step("hangs", HANG)
    later = Step("later", "Later", 60, 0.5, hangs.list_children)
    report = run(hangs, later, step("last", ""), seconds=1.0)
    stopped = [each["children"][0]["state"] for each in report["steps"]]
    assert stopped[:2] == ["stopped", "stopped"]
    assert 0.3 < report["steps"][0]["seconds"] < report["seconds"]


PROGRAM = """
import json, os, sys
from benchmarks.gpu_report import __main__ as program
from benchmarks.gpu_report.runner import Child
from benchmarks.gpu_report.steps import Step

def step(name, script):
    child = Child(name, (sys.executable, "-S", "-c", script), 60)
    return Step(name, name, 60, 0, lambda _: [child])

program.list_steps = lambda *_: [step(*each) for each in json.loads(os.environ["STEPS"])]
sys.exit(program.main())
"""


@pytest.mark.parametrize(
    ("number", "state"), [(signal.SIGKILL, "running"), (signal.SIGTERM, "cut off")]
)
def test_it_is_whole_when_it_is_cut_off(tmp_path, number, state):
    listed = {"ends": RECORD, "hangs": RECORD + HANG, "last": RECORD}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    environment = {**os.environ, "STEPS": json.dumps(list(listed.items()))}
    with subprocess.Popen(command, env=environment) as process:

        def hangs():
            path = tmp_path / "report.md"
            return path.exists() and len(list_pids(read(tmp_path)["steps"][1])) == 2

        try:
            wait_until(hangs)
            process.send_signal(number)
            process.wait(PATIENCE)
        finally:
            process.kill()
    report = read(tmp_path)
    assert report["state"] == state
    states = [each["state"] for each in report["steps"]]
    assert states == ["done", state, "waiting"]
    leader = list_pids(report["steps"][1])[0]
    wait_until(lambda: not is_running(leader))
    assert len(list(tmp_path.iterdir())) <= 8


TESTS = """
import pytest
@pytest.mark.gpu
@pytest.mark.parametrize("n", range(2))
def test_n(n):
    assert n == 0
@pytest.mark.gpu
def test_skipped():
    raise pytest.skip.Exception("needs two GPUs")
def test_without_a_gpu():
    pass
"""


@pytest.mark.subprocess
def test_results_of_tests_are_recorded(run, tmp_path, monkeypatch):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_some.py").write_text(TESTS)
    (tmp_path / "tests" / "test_others.py").write_text("raise RuntimeError('not collected')")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = gpu")
    monkeypatch.setenv("PYTHONPATH", str(Path(steps.__file__).parents[2]))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    # The pytest of the step is not a worker of the pytest that runs this test.
    for name in [name for name in os.environ if name.startswith("PYTEST_XDIST")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    child = Child("pytest", make_test_command(tmp_path, workers=1), PATIENCE)
    report = run(Step("tests", "Tests", PATIENCE, 0, lambda _: [child]), seconds=PATIENCE)
    assert report["steps"][0]["children"][0]["detail"] == "exit status 1"
    failed, *_ = (each for each in find_records(report, "tests") if not each["ok"])
    assert failed["name"].endswith("test_n[1]")
    assert "assert 1 == 0" in failed["error"]
    answers = summary.QUESTIONS["tests marked `gpu`, the GPU as default"](report)
    assert sorted(answers.split(", ")) == ["1 failed", "1 passed", "1 skipped"]


def test_programs_of_steps_are_there():
    package = Path(steps.__file__).parent
    for path in package.glob("[!_]*.py"):
        importlib.import_module(f"{steps.__package__}.{path.stem}")
    assert tuple(first_calls.CASES) == steps.FIRST_CALLS


def test_page_has_the_tables_of_the_newest_report():
    assert summary.written_tables() == "\n".join(summary.lines_of_page())
