"""Print the faults that prevent a release of this tree: run as `python .ci/release/ready.py`."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def find_faults(root: Path) -> Iterator[tuple[str, str]]:
    """Yield each requirement, and what is missing; an empty text where nothing is.

    Args:
        root: the repository.
    """
    changed = subprocess.run(
        ["git", "status", "--porcelain"], cwd=root, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    # The page of evidence itself is written and committed after the check.
    changed = [line for line in changed if line and "doc/releases/" not in line]
    yield "a clean tree", f"{len(changed)} files differ from the commit" if changed else ""

    document = tomllib.loads((root / "pyproject.toml").read_text())
    urls = document["project"].get("urls", {})
    yield (
        "the repository's address",
        "" if "Source" in urls else "run `python .ci/release/set_address.py OWNER/NAME`",
    )

    changelog = (root / "CHANGELOG.md").read_text()
    newest = re.search(r"^## (\S+) \((.*)\)$", changelog, re.M)
    dated = newest is not None and re.fullmatch(r"\d{4}-\d{2}-\d{2}", newest[2])
    yield (
        "a dated section in CHANGELOG.md",
        "" if dated else "put the date of the release into the newest heading",
    )

    citation = (root / "CITATION.cff").read_text()
    cited = re.search(r"^version: (.*)$", citation, re.M)
    agree = newest is not None and cited is not None and newest[1] == cited[1].strip("\"'")
    yield (
        "the same version in CHANGELOG.md and CITATION.cff",
        "" if agree else "set `version` in CITATION.cff to the changelog's newest version",
    )


def main() -> int:
    """Print a line for each requirement; return 1 if one is not met."""
    missing = 0
    for requirement, fault in find_faults(ROOT):
        missing += bool(fault)
        print(f"missing: {requirement}: {fault}" if fault else f"ok: {requirement}")
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
