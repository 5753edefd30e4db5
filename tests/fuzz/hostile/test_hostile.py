"""A short run of mutated inputs: handlers, decoder, and whole files in children.

The long runs stand in the modules beside this one; runtime/sanitize.sh runs them under
AddressSanitizer.
"""

import subprocess
import sys

import pytest


def run(*arguments):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", *arguments],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.subprocess
def test_handlers_take_any_input():
    assert "calls in" in run("tests.fuzz.hostile.handlers", "2000")


@pytest.mark.subprocess
def test_sizes_of_an_empty_buffer_do_not_overflow():
    # Seed 25 has sizes of 2**62, 2**20 and 0; only the sanitizers notice.
    assert "calls in" in run("tests.fuzz.hostile.handlers", "1", "25")


@pytest.mark.subprocess
def test_the_decoder_takes_any_file():
    assert "refused" in run("tests.fuzz.hostile.files", "decode", "200")


@pytest.mark.subprocess
def test_no_file_ends_the_process_in_our_code():
    assert "refused" in run("tests.fuzz.hostile.files", "run", "20")


@pytest.mark.subprocess
def test_the_guard_sees_what_the_parser_sees():
    assert "rejected" in run("tests.fuzz.hostile.texts", "300")
