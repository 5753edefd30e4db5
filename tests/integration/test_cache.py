"""``enable_cache``: what a second process compiles."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import PATIENCE

import bellhop

EXAMPLES = Path(__file__).parents[2] / "examples"
COUNTED = """
import sys
import bellhop
import jax

events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
bellhop.enable_cache(sys.argv[1])

sys.path.insert(0, sys.argv[2])
import h2_vqe

h2_vqe.main()
for outcome in ("hits", "misses"):
    print(outcome, events.count(f"/jax/compilation_cache/cache_{outcome}"), file=sys.stderr)
"""


def _run(folder):
    run = subprocess.run(
        [sys.executable, "-c", COUNTED, str(folder), str(EXAMPLES)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=os.environ | {"PYTHONHASHSEED": "random"},
    )
    assert run.returncode == 0, run.stderr
    lines = dict(line.split() for line in run.stderr.splitlines()[-2:])
    return int(lines["hits"]), int(lines["misses"]), run.stdout


@pytest.mark.subprocess
def test_a_second_process_compiles_nothing_of_the_main_job(tmp_path):
    _, misses, first = _run(tmp_path)
    assert misses > 0
    hits, second_misses, second = _run(tmp_path)
    assert second_misses == 0
    assert hits >= misses
    assert _log(first) == _log(second)
    assert len(_log(first)) >= 10


def _log(text):
    return [line for line in text.splitlines() if line.startswith("step")]


def test_a_file_of_that_name_is_an_error(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(NotADirectoryError, match="is not a folder, expected a folder"):
        bellhop.enable_cache(file)
