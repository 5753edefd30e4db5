"""Bars in a notebook: widgets of tqdm's, which end where their loops did."""

import nbclient
import nbformat
import pytest
from tests.patience import PATIENCE

LOOPS = """
import bellhop

@bellhop.pure_callback
def check(x) -> float:
    if x > 20:
        raise ValueError("stop")
    return x

@bellhop.qjit
def nested(n):
    add = lambda j, total: total + j
    inner = lambda i, total: bellhop.for_loop(0, 50, 1, progress="inner")(add)(total)
    return bellhop.for_loop(0, n, 1, progress="outer")(inner)(0)

@bellhop.qjit
def failing(n):
    return bellhop.for_loop(0, n, 1, progress="failing")(lambda i, x: check(x + 1))(0.0)
"""
CALLS = """
print(nested(30))
try:
    failing(40)
except ValueError as error:
    print(error)
"""


@pytest.mark.subprocess
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_widgets_show_how_far_loops_got():
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in (LOOPS, CALLS)]
    nbclient.NotebookClient(
        notebook, kernel_name="python3", timeout=PATIENCE, startup_timeout=PATIENCE
    ).execute()
    printed = [out["text"] for out in notebook.cells[1].outputs if out.get("name") == "stdout"]
    assert "".join(printed) == "36750\nstop\n"
    saved = notebook.metadata["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    states = [widget["state"] for widget in saved.values()]
    bars = [
        (state["value"], state["max"], state["bar_style"]) for state in states if "max" in state
    ]
    assert (30, 30, "success") in bars
    assert (50, 50, "success") in bars
    ((value, _, style),) = [bar for bar in bars if bar[1] == 40]
    # What short iterations did since they last told is not shown.
    assert 5 <= value <= 20
    assert style == "danger"
