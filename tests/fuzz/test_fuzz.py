"""What the fuzzer is made of works, and the first programs that it draws agree."""

import sys
import time

import pytest
from tests.fuzz.child import Child
from tests.fuzz.judge import judge
from tests.fuzz.search import Search
from tests.fuzz.verdict import AGREES, Verdict


@pytest.mark.subprocess
def test_programs_that_it_draws_agree():
    search = Search(judge, deadline=time.monotonic() + 600, shrinking=0)
    failure = search.batch(seed=0, most=16)
    assert failure is None, f"{failure.source}\n{failure.verdict.details}"
    # A program that is drawn twice is judged once.
    assert set(search.counts) == {AGREES}
    assert search.counts[AGREES] > 12


@pytest.mark.large
def test_a_difference_is_found_and_shrunk():
    """A program with an effect is taken for a fault: the smallest has one statement."""
    search = Search(
        lambda source: Verdict("effect" if "'o" in source else AGREES),
        deadline=time.monotonic() + 600,
    )
    failures = [search.batch(seed) for seed in range(3)]
    assert any(failure and failure.source.count("note, 'o") == 1 for failure in failures)


def test_a_script_that_kills_its_process_is_a_verdict(tmp_path):
    worker = "import os, sys; sys.stdin.readline(); os.kill(os.getpid(), 11)"
    with Child(tmp_path / "stderr", (sys.executable, "-c", worker)) as child:
        assert child.judge("a script") == Verdict("dies of SIGSEGV")
        assert child.judge("another") == Verdict("dies of SIGSEGV")
