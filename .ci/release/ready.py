"""Print the faults that prevent a release of this tree: run as `python .ci/release/ready.py`."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What a page says before the first release.
UNPUBLISHED = "not published yet"


def find_newest_release(root: Path) -> tuple[str, str]:
    """Return the version of the newest heading in CHANGELOG.md, and its date or ``unreleased``.

    Raises:
        ValueError: if the file lacks a heading such as ``## 0.1.0 (unreleased)``.
    """
    heading = re.search(r"^## (\S+) \((.*)\)$", (root / "CHANGELOG.md").read_text(), re.M)
    if heading is None:
        raise ValueError("CHANGELOG.md has no heading such as `## 0.1.0 (unreleased)`.")
    return heading[1], heading[2]


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

    version, day = find_newest_release(root)
    yield (
        "a dated section in CHANGELOG.md",
        ""
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", day)
        else "put the date of the release into the newest heading",
    )

    citation = (root / "CITATION.cff").read_text()
    for key, expected in (("version", version), ("date-released", day)):
        field = re.search(rf"^{key}: (.*)$", citation, re.M)
        agrees = field is not None and field[1].strip("\"'") == expected
        yield (
            f"the {key} of CHANGELOG.md in CITATION.cff",
            "" if agrees else f"set `{key}: {expected}` in CITATION.cff",
        )

    pages = [root / "README.md", *sorted((root / "doc" / "start").glob("*.md"))]
    outdated = [str(page.relative_to(root)) for page in pages if UNPUBLISHED in page.read_text()]
    yield (
        "pages that say how to install a published package",
        f"{', '.join(outdated)}: says {UNPUBLISHED!r}" if outdated else "",
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
