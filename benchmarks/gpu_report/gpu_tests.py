"""The command that runs the tests marked gpu, and the pytest plugin that records their results."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.gpu_report.step_records import record

#: Seconds after which a test's process prints where each of its threads is.
_SLOW = 60
_LARGEST = 6000
# A worker of pytest-xdist reports to the process that started it, which has this plugin too.
_IN_WORKER = "PYTEST_XDIST_WORKER" in os.environ


def make_test_command(root: Path, workers: int) -> tuple[str, ...]:
    """Return the command, which names the files alone that can have such tests.

    The machine has many plugins for pytest and warnings are errors, so plugins are named too:
    `PYTEST_DISABLE_PLUGIN_AUTOLOAD` is set.

    Args:
        root: the folder of the bundle.
        workers: how many processes run tests.
    """
    plugins = ("-p", "xdist.plugin", "-p", "no:cacheprovider", "-p", __name__)
    spread = ("-n", str(workers), "--dist", "worksteal")
    slow = ("-o", f"faulthandler_timeout={_SLOW}")
    files = [str(path.relative_to(root)) for path in _find_tests(root / "tests")]
    return (sys.executable, "-m", "pytest", *plugins, *spread, *slow, "-m", "gpu", *files)


def _find_tests(tests: Path) -> Iterator[Path]:
    """Find the files that use the mark; a conftest.py has fixtures with it for its folder."""
    marked = [path for path in sorted(tests.rglob("*.py")) if "mark.gpu" in path.read_text()]
    folders = [path.parent for path in marked if path.name == "conftest.py"]
    yield from folders
    for path in marked:
        if path.name.startswith("test_") and not any(f in path.parents for f in folders):
            yield path


def pytest_runtest_logstart(nodeid: str) -> None:
    """Record that a test has begun, so that the report can name those that hang."""
    if not _IN_WORKER:
        record(nodeid, counted="begun")


def pytest_runtest_logreport(report: Any) -> None:
    """Record the result of a test: of its call, or of its setup where that fails or skips."""
    if not _IN_WORKER and (report.when == "call" or report.outcome != "passed"):
        values: dict[str, Any] = {"seconds": round(report.duration, 2)}
        if report.skipped:
            values["reason"] = str(report.longrepr[-1] if report.longrepr else "")
        elif report.failed:
            values["error"] = report.longreprtext[-_LARGEST:]
        outcome = report.outcome if report.when == "call" else f"{report.when} {report.outcome}"
        shown = {} if report.failed else {"counted": report.outcome}
        record(report.nodeid, ok=not report.failed, outcome=outcome, **shown, **values)
