"""Runs that were saved, as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.case import Case, Target
from benchmarks.measure import Outcome, Result, Settings

RESULTS = Path(__file__).resolve().parent / "results"
_PARTIAL = "-partial"


@dataclass
class Record:
    """A run that was saved.

    Attributes:
        path: of the file.
        date: of the run, as ``2026-11-21``.
        machine: how many processors it had, as ``2cpu``.
        rounds: that were timed.
        versions: of the packages, by framework.
        results: a row for each case.
    """

    path: Path
    date: str
    machine: str
    rounds: int
    versions: dict[str, dict[str, str]]
    results: list[Result]

    def __getitem__(self, case: str) -> Result:
        """Return the row of a case."""
        return next(result for result in self.results if result.case.name == case)


def machine() -> str:
    """Describe the machine without naming it."""
    # Inside a container the processors that may be used are fewer than there are.
    usable = getattr(os, "sched_getaffinity", None)
    return f"{len(usable(0)) if usable else os.cpu_count()}cpu"


def save(
    results: Sequence[Result],
    versions: dict[str, dict[str, str]],
    settings: Settings,
    complete: bool,
) -> Path:
    """Write everything that was measured as JSON and return the file.

    A run of some cases or of some frameworks is not `complete`; its file is named so that
    it neither replaces nor passes for a complete one.
    """
    now = datetime.now()
    document = {
        "date": now.isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": versions,
        "settings": vars(settings),
        "cases": [
            {
                "name": result.case.name,
                "title": result.case.title,
                "tolerance": result.case.tolerance,
                "limit": result.case.limit,
                "items": result.case.items,
                "unit": result.case.unit,
                "wrong": result.wrong,
                "targets": [vars(target) for target in result.case.targets],
                "frameworks": {
                    name: {
                        "unavailable": outcome.unavailable,
                        "run_s": outcome.run,
                        "compile_s": outcome.compile,
                        "run_rounds_s": outcome.run_s,
                        "first_call_rounds_s": outcome.first_s,
                    }
                    for name, outcome in result.outcomes.items()
                },
            }
            for result in results
        ],
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{now:%Y-%m-%d}-{machine()}{'' if complete else _PARTIAL}.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path


def load(path: Path) -> Record:
    """Return what ``save`` wrote."""
    document = json.loads(path.read_text())
    return Record(
        path,
        document["date"][:10],
        document["machine"],
        document["settings"]["rounds"],
        document["versions"],
        [_result(entry) for entry in document["cases"]],
    )


def newest() -> Record:
    """Return the newest complete run."""
    return load(max(path for path in RESULTS.glob("*.json") if _PARTIAL not in path.name))


def _result(entry: dict[str, Any]) -> Result:
    case = Case(
        name=entry["name"],
        title=entry["title"],
        limit=entry["limit"],
        builders={},
        items=entry["items"],
        unit=entry["unit"],
        targets=tuple(Target(**target) for target in entry["targets"]),
    )
    outcomes = {
        framework: Outcome(
            outcome["unavailable"],
            outcome["run_rounds_s"],
            outcome["first_call_rounds_s"],
            outcome["compile_s"] is not None,
        )
        for framework, outcome in entry["frameworks"].items()
    }
    return Result(case, outcomes, entry["wrong"])
