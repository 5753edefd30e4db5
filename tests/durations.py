"""How much of a processor's time quick tests take, and which of them are too slow for their tier.

``pytest --record-durations`` measures tests, with the processes that they start, and lists the
slowest in ``tests/durations.toml``, which do not fit into the time that the tier has.
`tests/tiers.py` marks them ``slow``.  A clock would measure what else the machine does.
"""

import functools
import importlib
import json
import os
import sys
import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).with_name("durations.toml")
# Seconds of a processor for the bodies of all quick tests: some four minutes in two processes,
# which take most of another minute to collect the tests.
BUDGET = 500.0
# How many more tests than were measured the quick tier may have, as a factor.
_GROWTH = 1.03
_HEAD = """\
# Written by `make durations`.  `measured` is the number of tests in the quick tier, without the
# slow tests, which are listed with the seconds of a processor that they take.

"""
_PROPERTY = "processor_seconds"


def add_options(parser: pytest.Parser) -> None:
    parser.addoption("--record-durations", action="store_true", help=f"write {FILE.name}")
    parser.addoption(
        "--check-durations", action="store_true", help="reject a tier that has grown since then"
    )


@functools.cache
def read_slow_tests() -> frozenset[str]:
    """Return the names of the tests that were too slow for the quick tier."""
    return frozenset(_read_file().get("slow", {}))


def check_durations(items: list[pytest.Item]) -> None:
    """Reject a quick tier with many tests that have not been measured."""
    measured = _read_file()["measured"]
    if len(items) > _GROWTH * measured:
        raise pytest.UsageError(
            f"The quick tier has {len(items)} tests, and had {measured} when they were measured. "
            "Run `make durations`, which moves the slowest to `make test-rest` (CONTRIBUTING.md)."
        )


def choose_slow_tests(
    seconds: Mapping[str, float], kept: Collection[str], budget: float
) -> list[str]:
    """Choose the slowest tests, so that the rest fit into a budget.

    The fastest test of each file is never chosen.

    Args:
        seconds: duration of each test, by its name ``file::test``.
        kept: names of further tests that are not chosen.
        budget: how many seconds the rest may take.

    Returns:
        The names, the slowest test first.
    """
    slowest_first = sorted(seconds, key=lambda name: -seconds[name])
    fastest_of_files = set({name.split("::")[0]: name for name in slowest_first}.values())
    excess = sum(seconds.values()) - budget
    slow: list[str] = []
    for name in slowest_first:
        if name in kept or name in fastest_of_files:
            continue
        if excess <= 0:
            break
        slow.append(name)
        excess -= seconds[name]
    return slow


class DurationRecorder:
    """Measures tests where they run, and writes down what all workers measured."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._kept: set[str] = set()
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
        self._names.add(report.nodeid)
        if "quick" in report.keywords:
            self._kept.add(report.nodeid)
        seconds = dict(report.user_properties).get(_PROPERTY)
        if report.when == "call" and seconds is not None:
            self._seconds[report.nodeid] = seconds

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workerinput"):
            return
        slow = choose_slow_tests(self._seconds, self._kept, BUDGET)
        lines = [f"{json.dumps(name)} = {self._seconds[name]:.1f}\n" for name in sorted(slow)]
        measured = len(self._names) - len(slow)
        FILE.write_text(f"{_HEAD}measured = {measured}\n\n[slow]\n{''.join(lines)}")


def _read_file() -> dict[str, Any]:
    return tomllib.loads(FILE.read_text())


def _processor_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
