"""The checks that a release needs, in the order in which `check.py` runs them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

# How many lines of evidence the page shows of one part.
MOST_LINES = 12
# Colours of a terminal, which twine writes to a pipe too, whatever NO_COLOR says.
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Part:
    """A check of a release.

    Attributes:
        name: the name by which options select the part.
        shows: what a success of the part shows.
        command: the shell command, run in the repository's root.
        hours: an upper estimate of its time on two cores.
        evidence: a regular expression; the page quotes the lines of the output that match it.
    """

    name: str
    shows: str
    command: str
    hours: float
    evidence: str = r"^(?:=+ )?\d+ passed"

    def find_evidence(self, output: str) -> list[str]:
        """Return the lines of the output that the page quotes: the last of many."""
        lines = [line.strip() for line in COLOURS.sub("", output).splitlines()]
        return [line for line in lines if re.search(self.evidence, line)][-MOST_LINES:]


def make_parts(make: str, python: str, minutes: float, jax_versions: list[str]) -> list[Part]:
    """Return all parts.

    Args:
        make: the command of make.
        python: the interpreter of the environment that `make test` sets up.
        minutes: how long the fuzzer runs.
        jax_versions: the versions of JAX that the Makefile tests.
    """
    passed = r"^(?:=+ )?\d+ passed|^\d+ calls in|^ *\d+ \w+: (ran|raised|refused|died)"
    parts = [
        Part(
            "ready",
            "the tree is clean, and the version, the address and the changelog are set",
            f"{python} .ci/release/ready.py",
            0.1,
            r"^(ok|missing): ",
        ),
        Part("lint", "style, types, contracts and schemas", f"{make} lint", 0.2, r"KEPT|kept|^\d+"),
        Part("quick", "every behaviour once, without the slowest", f"{make} test", 0.2),
        Part("rest", "the other cells of matrices, and what is slow", f"{make} test-rest", 1),
        Part("optional", "PyTorch, Kokkos, Qrack, Stim, Graphviz", f"{make} test-optional", 0.3),
        Part(
            "gpu",
            "regions on a GPU, or on the stand-in for a GPU",
            f"{python} -m pip install --quiet --no-deps lammps-jax-pjrt-cpu==0.11.2"
            f" && {make} test-gpu REQUIRED=yes",
            0.2,
            r"^(?:=+ )?\d+ passed|^JAX_PLATFORMS",
        ),
        Part("long", "stress, memory, and cells of triples of values", f"{make} test-longest", 3),
        Part("tpu", "regions compiled for a TPU", f"{make} test-tpu", 0.2),
        Part("sanitizers", "no error of memory or of threads", f"{make} sanitize", 2),
        Part("hostile", "crafted files and calls of handlers", f"{make} fuzz-hostile", 2, passed),
    ]
    # The part `rest` runs all of the rest on one version of JAX; the others share it.
    count = len(jax_versions)
    parts += [
        Part(
            f"jax-{version}",
            f"JAX {version}: the quick tests, and {number}/{count} of the rest",
            f"{make} test-with-jax-{version} SHARE={number}/{count}",
            0.8,
        )
        for number, version in enumerate(jax_versions, 1)
    ]
    parts += [
        Part(
            "fuzz",
            f"random programs for {minutes:g} minutes, compared with plain Python",
            f"{make} fuzz MINUTES={minutes:g}",
            minutes / 60,
            r"^\d+ (?!programs)\w",
        ),
        Part(
            "docs", "all cells of all pages print what is recorded", f"{make} docs", 0.3, r"^build"
        ),
        Part(
            "links",
            "all addresses in the documentation answer",
            f"{make} linkcheck",
            0.2,
            r"^build",
        ),
        Part(
            "wheels",
            "an sdist, and a wheel for each Python, tried without a compiler",
            f"{make} wheels && ls -l dist | awk 'NR > 1 {{ print $9, $5, \"bytes\" }}'",
            1,
            r"\.(whl|tar\.gz) \d+ bytes$|^Python \d|manylinux",
        ),
        Part(
            "upload",
            "PyPI would take the files",
            f"{python} -m pip install --quiet twine && "
            f"COLUMNS=200 {python} -m twine check --strict dist/*",
            0.1,
            r"PASSED|FAILED",
        ),
        Part("bundle", "a report for a machine with a GPU", f"{make} gpu-bundle", 0.3, r"MiB$"),
        Part(
            "benchmarks",
            "ratios to JAX, Catalyst and simulators",
            f"{make} bench",
            4,
            r"^Faster than every peer: |: MISSED$|^README\.md: from ",
        ),
    ]
    return parts


def select_parts(
    parts: list[Part],
    only: list[str],
    skip: list[str],
    fail: Callable[[str], None],
) -> set[str]:
    """Return the names of the parts that are run.

    Args:
        parts: all parts.
        only: names of parts; empty for all.
        skip: names of parts.
        fail: is called with a message if a name is unknown.
    """
    names = [part.name for part in parts]
    for name in (*only, *skip):
        if name not in names:
            fail(f"there is no part {name!r}, expected one of {', '.join(names)}")
    return {name for name in names if (not only or name in only) and name not in skip}
