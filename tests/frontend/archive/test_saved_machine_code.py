"""Saved functions whose files hold what XLA compiled."""

import os

import jax
import numpy as np
import pytest
import saved_programs as programs
from repacked_files import members_of, repack

import bellhop

LOAD = """
import jax, numpy as np, bellhop
times_compiled = 0

def listen(event, duration, **_):
    global times_compiled
    times_compiled += event == "/jax/core/compile/backend_compile_duration"

f = bellhop.load({path!r}, trust={trust})
jax.monitoring.register_event_duration_secs_listener(listen)
print([float(f(x)[0]) for x in (0.5, np.float64(0.5), jax.device_put(0.5), 0.5)], times_compiled)
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "function.bellhop"


def with_machine_code(path, function=programs.circuit):
    f = bellhop.qjit(function)
    expected = float(f(0.5)[0])
    f.save(path, compiled=True)
    return expected


@pytest.mark.subprocess
@pytest.mark.parametrize("trust", [True, False])
def test_a_service_starts_without_compiling_what_it_trusts(path, run_script, trust):
    expected = with_machine_code(path)
    search = os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")])
    printed = run_script(LOAD.format(path=str(path), trust=trust), PYTHONPATH=search)
    values, times_compiled = printed.rsplit(" ", 1)
    assert values == str([expected] * 4)
    assert (int(times_compiled) == 0) is trust


def test_callbacks_and_regions_in_machine_code(path):
    f = bellhop.qjit(programs.with_a_region)
    expected = f(1.5)
    f.save(path, compiled=True)
    assert bellhop.load(path, trust=True)(1.5) == expected
    f = bellhop.qjit(programs.with_callbacks)
    expected = f(1.5, 3)
    f.save(path, compiled=True)
    loaded = bellhop.load(path, trust=True)(1.5, 3)
    jax.tree.map(np.testing.assert_array_equal, loaded, expected)


def test_machine_code_of_another_machine_is_not_run(path, monkeypatch):
    expected = with_machine_code(path)
    monkeypatch.setenv("XLA_FLAGS", os.environ.get("XLA_FLAGS", "") + " --of_another_process")
    with pytest.warns(UserWarning, match="the function is compiled again"):
        f = bellhop.load(path, trust=True)
    assert float(f(0.5)[0]) == expected


def test_damaged_machine_code_is_an_error_of_the_file(path, tmp_path):
    with_machine_code(path)
    damaged = tmp_path / "damaged.bellhop"
    members = members_of(path)
    repack(damaged, members | {"0.xla": members["0.xla"][:-50]})
    f = bellhop.load(damaged, trust=True)
    with pytest.raises(bellhop.CompileError, match="cannot run here"):
        f(0.5)
