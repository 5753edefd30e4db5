"""The page of evidence that `check.py` writes."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from parts import Part

# Packages whose versions the page names.
PACKAGES = ("jax", "jaxlib", "pennylane", "pennylane-lightning", "numpy", "scipy")
# The page's line for a part whose output has no line to quote.
NO_EVIDENCE = "(no line of the output was selected)"


@dataclass(frozen=True)
class Outcome:
    """What came of a part.

    Attributes:
        status: the exit status of its command.
        seconds: how long the command ran.
        evidence: lines of its output.
        date: the day on which it ran, as ``2026-01-31``.
        machine: what it ran on, from `describe_machine`.
        commit: the commit of the sources that it ran on, and its date.
    """

    status: int
    seconds: float
    evidence: list[str] = field(default_factory=list)
    date: str = ""
    machine: dict[str, str] = field(default_factory=dict)
    commit: str = ""


def find_today() -> str:
    """Return the date in UTC, as ``2026-01-31``."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def run_git(*arguments: str) -> str:
    """Return the output of a git command in the repository."""
    return subprocess.run(
        ["git", *arguments], capture_output=True, text=True, check=True
    ).stdout.strip()


def find_processor() -> str:
    """Return the processor's name and widest vectors, or an empty text where Linux does not say."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return ""
    fields = dict(re.findall(r"^([\w ]+?)\s*: (.+)$", text, re.M))
    flags = fields.get("flags", "").split()
    widest = next((name for name in ("avx512f", "avx2") if name in flags), "")
    return ", ".join(part for part in (fields.get("model name", ""), widest) if part)


def describe_machine() -> dict[str, str]:
    """Return the system, the processor and the versions of packages, by their names."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    machine = {
        "system": f"{platform.system()}, {platform.machine()}",
        "processor": find_processor(),
        "cores": str(cores),
        "memory": f"{pages * size / 2**30:.0f} GiB",
        "Python": platform.python_version(),
    }
    for package in PACKAGES:
        try:
            machine[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            machine[package] = "not installed"
    return machine


def format_machines(machines: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the lines of a table that has a numbered column for each machine."""
    lines = [
        "| |" + "".join(f" {number} |" for number in range(1, len(machines) + 1)),
        "|---|" + "---|" * len(machines),
    ]
    for name in dict.fromkeys(name for machine in machines for name in machine):
        values = "".join(f" {machine.get(name, '')} |" for machine in machines)
        lines.append(f"| {name} |{values}")
    return lines


def format_page(
    title: str,
    commit: str,
    parts: Sequence[Part],
    chosen: set[str],
    outcomes: Mapping[str, Outcome],
    changes: Mapping[str, Sequence[str]],
) -> str:
    """Return the page, complete up to the parts that have run so far.

    Args:
        title: the version.
        commit: the last commit, and its date.
        parts: all parts.
        chosen: the names of the parts that are not skipped.
        outcomes: the outcome of each part that has run, by its name.
        changes: what has changed after each earlier commit that parts ran on, newest first.
    """
    failed = [name for name, outcome in outcomes.items() if outcome.status]
    skipped = [part.name for part in parts if part.name not in chosen]
    pending = [part.name for part in parts if part.name in chosen and part.name not in outcomes]
    if failed:
        verdict = f"**Not to be released**: {', '.join(failed)} failed."
    elif skipped or pending:
        verdict = "**Incomplete**: all parts that ran passed, and some were skipped."
    elif changes:
        verdict = (
            "**Complete on several commits**: all parts passed, some of them before the changes "
            "that are listed at the end."
        )
    else:
        verdict = "**Complete**: all parts passed."
    lines = [
        f"# Evidence for {title}",
        "",
        f"Written by `make release-check` on {find_today()}.",
        "",
    ]
    lines += [f"Commit {commit}.", "", verdict, ""]
    if skipped:
        lines += [f"Skipped by an option: {', '.join(skipped)}.", ""]
    if pending:
        lines += [f"Not run yet: {', '.join(pending)}.", ""]
    machines: list[Mapping[str, str]] = []
    for part in parts:
        if part.name in outcomes and outcomes[part.name].machine not in machines:
            machines.append(outcomes[part.name].machine)
    lines += ["## Machines", "", *format_machines(machines), "", "## Parts", ""]
    lines += ["| part | shows | result | minutes | date | machine | commit |", "|---" * 7 + "|"]
    for part in parts:
        outcome = outcomes.get(part.name)
        if outcome is None:
            result = "skipped" if part.name not in chosen else "not run yet"
            ran = "| | | | |"
        else:
            result = "failed" if outcome.status else "passed"
            number = machines.index(outcome.machine) + 1
            minutes, commit_of_part = outcome.seconds / 60, outcome.commit[:8]
            ran = f"| {minutes:.1f} | {outcome.date} | {number} | {commit_of_part} |"
        lines.append(f"| {part.name} | {part.shows} | {result} {ran}")
    lines += ["", "## Evidence", ""]
    for part in parts:
        if part.name in outcomes:
            lines += [f"`{part.command}`", "", "```text"]
            lines += outcomes[part.name].evidence or [NO_EVIDENCE]
            lines += ["```", ""]
    for earlier, changed in changes.items():
        names = [name for name, outcome in outcomes.items() if outcome.commit == earlier]
        lines += [f"## Changes after {', '.join(names)}", "", f"After {earlier}:", ""]
        lines += ["```text", *changed, "```", ""]
    return "\n".join(lines)


def write_whole(path: Path, text: str) -> None:
    """Replace a file, so that a reader never sees a half of it."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text)
    partial.replace(path)
