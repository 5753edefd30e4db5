"""The page of evidence that `check.py` writes."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from parts import Part

# Packages whose versions the page names.
PACKAGES = ("jax", "jaxlib", "pennylane", "pennylane-lightning", "numpy", "scipy")


@dataclass(frozen=True)
class Outcome:
    """What came of a part.

    Attributes:
        status: the exit status of its command.
        seconds: how long the command ran.
        evidence: lines of its output.
    """

    status: int
    seconds: float
    evidence: list[str] = field(default_factory=list)


def run_git(*arguments: str) -> str:
    """Return the output of a git command in the repository."""
    return subprocess.run(
        ["git", *arguments], capture_output=True, text=True, check=True
    ).stdout.strip()


def describe_machine() -> list[tuple[str, str]]:
    """Return rows of a table: the system, the processor, the versions of packages."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    rows = [
        ("system", f"{platform.system()}, {platform.machine()}"),
        ("cores", str(cores)),
        ("memory", f"{pages * size / 2**30:.0f} GiB"),
        ("Python", platform.python_version()),
    ]
    for package in PACKAGES:
        try:
            rows.append((package, importlib.metadata.version(package)))
        except importlib.metadata.PackageNotFoundError:
            rows.append((package, "not installed"))
    return rows


def format_page(
    title: str,
    commit: str,
    parts: Sequence[Part],
    chosen: set[str],
    outcomes: Mapping[str, Outcome],
    machine: Sequence[tuple[str, str]],
) -> str:
    """Return the page, complete up to the parts that have run so far.

    Args:
        title: the version.
        commit: the commit that the parts ran on, and its date.
        parts: all parts.
        chosen: the names of the parts that are not skipped.
        outcomes: the outcome of each part that has run, by its name.
        machine: rows of the table of the machine.
    """
    failed = [name for name, outcome in outcomes.items() if outcome.status]
    skipped = [part.name for part in parts if part.name not in chosen]
    pending = [part.name for part in parts if part.name in chosen and part.name not in outcomes]
    if failed:
        verdict = f"**Not to be released**: {', '.join(failed)} failed."
    elif skipped or pending:
        verdict = "**Incomplete**: all parts that ran passed, and some were skipped."
    else:
        verdict = "**Complete**: all parts passed."
    today = datetime.datetime.now(datetime.UTC).date()
    lines = [f"# Evidence for {title}", "", f"Written by `make release-check` on {today}.", ""]
    lines += [f"Commit {commit}.", "", verdict, ""]
    if skipped:
        lines += [f"Skipped by an option: {', '.join(skipped)}.", ""]
    if pending:
        lines += [f"Not run yet: {', '.join(pending)}.", ""]
    lines += ["## Machine", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in machine]
    lines += ["", "## Parts", "", "| part | shows | result | minutes |", "|---|---|---|---|"]
    for part in parts:
        outcome = outcomes.get(part.name)
        if outcome is None:
            result, minutes = ("skipped" if part.name not in chosen else "not run yet"), ""
        else:
            result = "failed" if outcome.status else "passed"
            minutes = f"{outcome.seconds / 60:.1f}"
        lines.append(f"| {part.name} | {part.shows} | {result} | {minutes} |")
    lines += ["", "## Evidence", ""]
    for part in parts:
        if part.name in outcomes:
            lines += [f"`{part.command}`", "", "```text"]
            lines += outcomes[part.name].evidence or ["(no line of the output was selected)"]
            lines += ["```", ""]
    return "\n".join(lines)


def write_whole(path: Path, text: str) -> None:
    """Replace a file, so that a reader never sees a half of it."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text)
    partial.replace(path)
