"""The report: `report.json` and `report.md`, whole at any moment.

Both files are written under another name and then renamed, so a reader, or the end of the machine,
finds the report of the last change and never a part of one.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.gpu_report.runner import ChildResult

#: Bytes of `output.log`; a file that comes back from the machine has 16 MiB at most.
LARGEST_LOG = 12 << 20
_LARGEST_TEXT = 6000
_LARGEST_TRACEBACKS = 40
_HIDDEN = ("name", "ok", "error", "case_seconds")


@dataclass
class StepResult:
    """What a step did.

    Attributes:
        name: a short name, as ``tests``.
        title: what the step answers.
        state: "waiting", "running", "done", "failed" or "skipped"; "cut off" where the report ended
            in its middle.
        detail: why it was skipped, or failed by itself.
        seconds: how long it ran.
        children: its processes.
    """

    name: str
    title: str
    state: str = "waiting"
    detail: str = ""
    seconds: float = 0.0
    children: list[ChildResult] = field(default_factory=list)

    def records(self) -> list[dict[str, Any]]:
        """Return the records of all processes."""
        return [record for child in self.children for record in child.records]


@dataclass
class Report:
    """All steps, and the folder where the report is written.

    Attributes:
        folder: gets `report.json`, `report.md` and `output.log`.
        date: when it began, as ``2026-11-26T12:00:00``.
        slowness: the factor of all time limits.
        state: "running", "complete" or "cut off".
        seconds: since it began.
        steps: in their order.
    """

    folder: Path
    date: str
    slowness: int
    state: str = "running"
    seconds: float = 0.0
    steps: list[StepResult] = field(default_factory=list)

    def find_records(self, step: str) -> list[dict[str, Any]]:
        """Return the records of a step, or none where there is no such step."""
        return [record for each in self.steps if each.name == step for record in each.records()]

    def write(self) -> None:
        """Replace both files."""
        from benchmarks.gpu_report.summary import lines_of_summary

        document = {key: value for key, value in asdict(self).items() if key != "folder"}
        _replace(self.folder / "report.json", json.dumps(document, indent=1) + "\n")
        lines = [*self._head(), *lines_of_summary(document), *self._body()]
        _replace(self.folder / "report.md", "\n".join(lines) + "\n")

    def append_output(self, step: str, number: int, output: Path) -> None:
        """Append what a process printed to `output.log`, up to its largest size."""
        log = self.folder / "output.log"
        room = LARGEST_LOG - (log.stat().st_size if log.exists() else 0)
        if not output.exists() or room < 1000:
            return
        with log.open("ab") as target, output.open("rb") as source:
            target.write(f"\n##### {step} {number}\n".encode())
            size = output.stat().st_size
            source.seek(max(0, size - (room - 200)))
            shutil.copyfileobj(source, target)

    def _head(self) -> Iterator[str]:
        yield "# What runs on this GPU"
        yield ""
        yield f"Begun {self.date}, {self.state} after {self.seconds:.0f} s."
        if self.slowness != 1:
            yield f"All time limits were multiplied by {self.slowness}."
        yield ""

    def _body(self) -> Iterator[str]:
        for step in self.steps:
            yield f"\n## {step.title}\n"
            detail = f": {step.detail}" if step.detail else ""
            yield f"{step.name}, {step.state}, {step.seconds:.0f} s{detail}"
            for child in step.children:
                yield from _lines_of_child(child)


def read_report(path: Path) -> dict[str, Any]:
    """Return the document of a `report.json`."""
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def find_records(document: Mapping[str, Any], step: str) -> list[dict[str, Any]]:
    """Return the records of a step of a document."""
    return [
        record
        for each in document["steps"]
        if each["name"] == step
        for child in each["children"]
        for record in child["records"]
    ]


def _lines_of_child(child: ChildResult) -> Iterator[str]:
    detail = f", {child.detail}" if child.detail else ""
    yield f"\n### {child.label}: {child.state}{detail} ({child.seconds:.1f} s)\n"
    # Of hundreds of tests, those that passed are counted and not listed.
    shown = [record for record in child.records if "counted" not in record]
    if shown:
        yield "| | | |"
        yield "|---|---|---|"
    for record in shown:
        values = ", ".join(f"{key} {_text(value)}" for key, value in record.items() if _shows(key))
        yield f"| {record['name']} | {'ok' if record['ok'] else '**no**'} | {values} |"
    errors = [record for record in child.records if record.get("error")]
    for record in errors[:_LARGEST_TRACEBACKS]:
        yield f"\n{record['name']}:\n"
        yield from _fenced(record["error"])
    if len(errors) > _LARGEST_TRACEBACKS:
        yield f"\nand {len(errors) - _LARGEST_TRACEBACKS} more, which are in report.json"
    if child.output:
        yield "\nThe end of its output:\n"
        yield from _fenced(child.output)


def _shows(key: str) -> bool:
    return key not in _HIDDEN


def _text(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")


def _fenced(text: str) -> Iterator[str]:
    yield "~~~~"
    yield text[-_LARGEST_TEXT:].rstrip()
    yield "~~~~"


def _replace(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    unfinished = path.with_name(f".{path.name}")
    with unfinished.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
