"""What pages show is what happens."""

import doctest
from pathlib import Path

import pytest

DOC = Path(__file__).parents[1] / "doc"
EXECUTED = {
    page.relative_to(DOC).with_suffix(""): n_cells
    for page in sorted(DOC.glob("[!_]*/**/*.md"))
    if (n_cells := page.read_text().count("\n```{code-cell}"))
}


@pytest.mark.parametrize("page", ["derivative-step-by-step.md"])
def test_a_page_shows_what_happens(page: str) -> None:
    failed, attempted = doctest.testfile(str(DOC / "architecture" / page), module_relative=False)
    assert attempted > 0
    assert failed == 0


# ``make docs`` holds the outputs themselves against what each cell prints.
@pytest.mark.parametrize(("page", "n_cells"), EXECUTED.items(), ids=str)
def test_outputs_of_all_cells_are_recorded(page: Path, n_cells: int) -> None:
    recorded = (DOC / "expected" / f"{page}.txt").read_text().splitlines()
    assert {f"[{number}]" for number in range(1, n_cells + 1)} <= set(recorded)
