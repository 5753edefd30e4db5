"""How much of a processor's time tests take: recorded, and held against what the quick tier allows.

``pytest --record-durations`` writes tests above half a second into ``tests/durations.toml``, with
the time of the processes that they start; ``pytest --collect-only --check-durations`` refuses
tests that took too long.  A clock would measure what else the machine does.
"""

import importlib
import json
import os
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).with_name("durations.toml")
RECORDED, ALLOWED = 0.5, 1.5
_HEAD = "# Seconds of a processor, of tests that take more than half of one: by make durations.\n\n"
_PROPERTY = "processor_seconds"


def add_options(parser: pytest.Parser) -> None:
    parser.addoption("--record-durations", action="store_true", help=f"write {FILE.name}")
    parser.addoption(
        "--check-durations", action="store_true", help=f"refuse tests above {ALLOWED} s"
    )


def check_durations(items: list[pytest.Item]) -> None:
    """Refuse what is recorded to take too long."""
    recorded = _read_durations()
    slow = [
        f"{recorded[item.nodeid]:5.1f} s  {item.nodeid}"
        for item in items
        if recorded.get(item.nodeid, 0) > ALLOWED and not item.get_closest_marker("quick")
    ]
    if slow:
        raise pytest.UsageError(
            f"These tests of the quick tier took more than {ALLOWED} s. Make them faster, or mark "
            "the property that makes them slow (CONTRIBUTING.md):\n" + "\n".join(slow)
        )


class DurationRecorder:
    """Measures tests where they run, and writes down what all workers measured."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        import jax

        # The first compilation of a process is no test's own, nor is what PyTorch imports for its
        # first fake tensor.
        jax.jit(lambda x: x + 1)(1.0)
        if "torch" in sys.modules:
            importlib.import_module("torch._subclasses.fake_tensor").FakeTensorMode()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        before = _processor_seconds()
        try:
            return (yield)
        finally:
            item.user_properties.append((_PROPERTY, _processor_seconds() - before))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        seconds = dict(report.user_properties).get(_PROPERTY)
        if report.when == "call" and seconds is not None:
            self._seconds[report.nodeid] = seconds

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workerinput"):
            return
        kept = {name: s for name, s in _read_durations().items() if name not in self._seconds}
        kept |= {name: s for name, s in self._seconds.items() if s > RECORDED}
        lines = [f"{json.dumps(name)} = {kept[name]:.1f}\n" for name in sorted(kept)]
        FILE.write_text(_HEAD + "".join(lines))


def _read_durations() -> dict[str, Any]:
    return tomllib.loads(FILE.read_text()) if FILE.exists() else {}


def _processor_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
