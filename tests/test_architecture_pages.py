"""What pages of the architecture show is what happens."""

import doctest
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[1] / "doc" / "architecture"


@pytest.mark.parametrize("page", ["derivative-step-by-step.md"])
def test_a_page_shows_what_happens(page: str) -> None:
    failed, attempted = doctest.testfile(str(PAGES / page), module_relative=False)
    assert attempted > 0
    assert failed == 0
