"""The examples of the pages that say how to add something run as they stand."""

import re
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[1] / "doc" / "contributing").glob("add-a-*.md"))


def test_there_is_a_page_for_each_seam():
    assert [page.stem for page in PAGES] == [
        "add-a-backend",
        "add-a-gate",
        "add-a-measurement",
        "add-a-pass",
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_its_example_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # programs write their modules to the working directory
    text = page.read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert any("assert" in block for block in blocks)
    exec(compile("\n".join(blocks), str(page), "exec"), {"__name__": page.stem})
    assert len(text.splitlines()) <= 75
