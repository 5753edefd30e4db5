"""Run everything that a release needs, and write one page of evidence to doc/releases/.

`make release-check` runs all parts, most of a day on two cores.  SKIP and ONLY select parts, and
the page says which parts were skipped::

    make release-check LIST=yes
    make release-check ONLY="ready lint quick"
    make release-check SKIP="benchmarks fuzz"
    make release-check MINUTES=120

The page is replaced after each part, so it is complete up to there if the check is interrupted.
RESUME continues an interrupted check: parts that have passed on the same sources are not run again.
Changes of the files that the check writes do not count (the page, results of benchmarks, and their
tables and pictures), so that they can be committed between.  A file beside the page keeps the
outcomes: committed with the page, it lets another clone or another machine continue, and a part run
beside another one, each in its own clone, be added::

    make release-check RESUME=yes
    make release-check RESUME=yes ONLY=fuzz ADD=../other-clone/doc/releases/0.1.0.json
    make release-check RESUME=yes MERGE=yes ADD=../other-clone/doc/releases/0.1.0.json

MERGE writes the page from the outcomes that there are, and runs no part.

SINCE names a commit: parts that passed on it or later are not repeated either.  The page then says
what has changed after each part, for its reader to judge::

    make release-check RESUME=yes SINCE=1a2b3c4 ONLY="lint quick"
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from page import (  # noqa: E402
    Outcome,
    describe_machine,
    find_today,
    format_page,
    run_git,
    write_whole,
)
from parts import Part, make_parts, select_parts  # noqa: E402
from ready import find_newest_release  # noqa: E402

ROOT = HERE.parents[1]
# The files and folders that the check itself writes.
WRITTEN = (
    "doc/releases",
    "benchmarks/results",
    "README.md",
    "doc/how-to/external-callbacks.md",
    "doc/pictures",
)
# The paths of all other files, for git.
SOURCES = ("--", ":/", *(f":(top,exclude){path}" for path in WRITTEN))


def run_part(part: Part, log: Path, commit: str) -> Outcome:
    """Run the command of a part; its output goes to the terminal and to a file.

    Args:
        part: the part.
        log: the file.
        commit: the commit of the sources, and its date.
    """
    began = time.monotonic()
    command = ["bash", "-o", "pipefail", "-c", part.command]
    with (
        log.open("w") as file,
        subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            file.write(line)
            print(line, end="", flush=True)
    return Outcome(
        process.returncode,
        time.monotonic() - began,
        part.find_evidence(log.read_text().replace(f"{ROOT}/", "")),
        find_today(),
        describe_machine(),
        commit,
    )


def find_commits(since: str = "HEAD") -> list[str]:
    """Return the commits of sources that an outcome may have, with their dates, newest first.

    Args:
        since: a commit; the last result is the newest commit of sources up to it.
    """
    later = run_git("log", "--format=%H of %cs", f"{since}..HEAD", *SOURCES)
    oldest = run_git("log", "--format=%H of %cs", "--max-count=1", since, *SOURCES)
    return [*later.splitlines(), oldest]


def describe_changes(commit: str, later: str) -> list[str]:
    """Return lines that name the commits between two commits, and the files that they change.

    Args:
        commit: a commit and its date.
        later: a later commit and its date.
    """
    hashes = f"{commit.split()[0]}..{later.split()[0]}"
    subjects = run_git("log", "--format=%h %s", hashes, *SOURCES)
    files = run_git("diff", "--stat=100", hashes, *SOURCES)
    return [*subjects.splitlines(), "", *(line.strip() for line in files.splitlines())]


def read_outcomes(file: Path, commits: Sequence[str]) -> dict[str, Outcome]:
    """Return the outcomes of the parts that have passed on one of some commits.

    Args:
        file: the file that `save_outcomes` writes; without one, no part has passed.
        commits: the commits, with dates.
    """
    saved = json.loads(file.read_text()) if file.exists() else {}
    outcomes = {name: Outcome(**fields) for name, fields in saved.items()}
    return {
        name: outcome
        for name, outcome in outcomes.items()
        if outcome.status == 0 and outcome.commit in commits
    }


def save_outcomes(file: Path, outcomes: Mapping[str, Outcome]) -> None:
    """Write the outcomes of parts to a file."""
    fields = {name: dataclasses.asdict(outcome) for name, outcome in outcomes.items()}
    write_whole(file, json.dumps(fields, indent=1))


def main() -> int:
    """Run the chosen parts; return 1 if one failed."""
    parser = argparse.ArgumentParser(
        prog="check.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=[], metavar="PART")
    parser.add_argument("--skip", nargs="*", default=[], metavar="PART")
    parser.add_argument("--minutes", type=float, default=120.0, help="how long the fuzzer runs")
    parser.add_argument("--make", default="make")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--jax", nargs="+", required=True, help="versions of JAX")
    parser.add_argument("--out", type=Path, help="the page; by default doc/releases/VERSION.md")
    parser.add_argument(
        "--resume", action="store_true", help="do not repeat parts that passed on this commit"
    )
    parser.add_argument(
        "--add", nargs="*", default=[], type=Path, help="outcomes of other clones", metavar="FILE"
    )
    parser.add_argument(
        "--since",
        default="HEAD",
        help="do not repeat parts that passed on this commit or later",
        metavar="COMMIT",
    )
    parser.add_argument("--merge", action="store_true", help="run no part, and write the page")
    parser.add_argument("--list", action="store_true", help="list the parts, and run none")
    options = parser.parse_args()

    parts = make_parts(options.make, options.python, options.minutes, options.jax)
    chosen = select_parts(parts, options.only, options.skip, parser.error)
    if options.list:
        for part in parts:
            note = "" if part.name in chosen else " (skipped)"
            print(f"{part.name:12} {part.hours:5.1f} h  {part.shows}{note}")
        return 0
    version, _ = find_newest_release(ROOT)
    page: Path = options.out or ROOT / "doc" / "releases" / f"{version}.md"
    logs = ROOT / "build" / "release"
    for folder in (page.parent, logs):
        folder.mkdir(parents=True, exist_ok=True)
    commits, file = find_commits(options.since), page.with_suffix(".json")
    commit = commits[0]
    outcomes = read_outcomes(file, commits) if options.resume else {}
    for other in options.add:
        outcomes = read_outcomes(other, commits) | outcomes

    def write_page() -> None:
        """Write the outcomes so far, and the page."""
        save_outcomes(file, outcomes)
        earlier = {outcome.commit for outcome in outcomes.values()} - {commit}
        changes = {each: describe_changes(each, commit) for each in commits if each in earlier}
        shown = chosen | set(outcomes)
        write_whole(page, format_page(version, commit, parts, shown, outcomes, changes))

    for part in parts:
        if part.name in chosen and part.name not in outcomes and not options.merge:
            print(f"--- {part.name}: {part.command}", flush=True)
            outcomes[part.name] = run_part(part, logs / f"{part.name}.log", commit)
            write_page()
    write_page()
    print(f"{page}: {len(outcomes)} of {len(parts)} parts")
    return int(any(outcome.status for outcome in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main())
