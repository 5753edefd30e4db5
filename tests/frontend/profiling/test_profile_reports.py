"""What a profile is shown as: a table, a trace, a plot."""

import builtins
import json
import sys
import threading

import pytest
from tests.frontend.profiling.profiled import circuit, find_line, looped, slow

import bellhop
from bellhop.profiling.format_bytes import format_bytes
from bellhop.profiling.table import format_seconds


def test_table(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    f = looped(slow, 3)
    f(0.0)
    with bellhop.profile() as p:
        f(0.0)
    (line,) = [line for line in str(p).splitlines() if line.lstrip().startswith("pure_callback")]
    words = line.split()
    assert words[:3] == ["pure_callback", "slow", "3"]
    assert words[-5:-1] == ["24", "B", "24", "B"]
    assert words[-1] == f"profiled.py:{find_line(slow).rpartition(':')[2]}"


def test_figures_and_headings_are_whole_on_a_narrow_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    f = looped(slow, 3)
    f(0.0)
    with bellhop.profile() as p:
        f(0.0)
    lines = str(p).splitlines()
    headings = ["kind", "function", "calls", "total", "median", "GIL", "wait", "out", "in", "line"]
    assert headings in [line.split() for line in lines]
    (line,) = [line for line in lines if " slow " in line]
    assert line.split()[2:3] == ["3"]
    assert line.split()[-5:-1] == ["24", "B", "24", "B"]


def test_shown_it_is_the_table():
    f = bellhop.qjit(lambda x: x + 1)
    with bellhop.profile() as profile:
        f(1.0)
    assert repr(profile) == str(profile)
    shown = profile._repr_mimebundle_([], [])
    assert "calls" in shown["text/plain"]
    assert "<pre" in shown["text/html"]


def test_printed_in_a_notebook_it_is_text(monkeypatch):
    # What rich takes for one.
    shell = type("ZMQInteractiveShell", (), {})
    monkeypatch.setattr(builtins, "get_ipython", shell, raising=False)
    with bellhop.profile() as profile:
        bellhop.qjit(lambda x: x + 1)(1.0)
    assert "calls" in str(profile)


def test_trace(tmp_path):
    f = bellhop.qjit(lambda x: circuit(slow(x)))
    f(0.0)
    with bellhop.profile() as p:
        f(0.0)
    p.save(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    spans = {event["name"]: event for event in trace["traceEvents"] if event["ph"] == "X"}
    assert set(spans) == {"slow", "circuit", "<lambda>"}
    whole = spans.pop("<lambda>")
    assert whole["ts"] == 0
    for span in spans.values():
        assert whole["ts"] <= span["ts"]
        assert span["ts"] + span["dur"] <= whole["dur"]
    assert spans["slow"]["dur"] >= 2000
    assert spans["slow"]["args"]["defined"] == find_line(slow)
    names = [event["args"]["name"] for event in trace["traceEvents"] if event["ph"] == "M"]
    assert threading.current_thread().name in names


def test_an_empty_trace(tmp_path):
    with bellhop.profile() as p:
        pass
    p.save(tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"] == []


def test_an_empty_plot():
    import matplotlib

    matplotlib.use("Agg")
    with bellhop.profile() as p:
        pass
    assert list(p.plot().get_yticklabels()) == []


def test_plot():
    import matplotlib

    matplotlib.use("Agg")
    f = looped(slow, 3)
    f(0.0)
    with bellhop.profile() as p:
        f(0.0)
    ax = p.plot()
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert sorted(labels) == ["<lambda> (program)", "slow (pure_callback)"]
    assert ax.get_xlim()[1] >= 6
    assert p.plot(ax) is ax
    matplotlib.pyplot.close("all")


def test_plot_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with bellhop.profile() as p:
        pass
    with pytest.raises(ImportError, match="pip install matplotlib"):
        p.plot()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.9997, "1 s"), (0.9994, "999 ms"), (1.5e-3, "1.5 ms"), (9.997e-4, "1 ms"), (2e-9, "2 ns")],
)
def test_durations_have_three_digits(seconds, text):
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, ""), (999, "999 B"), (999_700, "1 MB"), (999_400, "999 kB")]
)
def test_byte_counts_have_three_digits(count, text):
    assert format_bytes(count) == text
