"""Every flavour of callback under every transformation: values, calls and errors."""

from pathlib import Path

import pytest
from tests.needs import params
from transformations.cells import CELLS, check
from transformations.table import document

DOCUMENT = Path(__file__).parents[2] / "doc" / "reference" / "callback-transformations.md"


@pytest.mark.axes(cell=lambda cell: (cell.flavour.name, cell.column, cell.form))
@pytest.mark.parametrize(
    "cell",
    params(CELLS, {cell: cell.flavour.needs for cell in CELLS if cell.flavour.needs}),
    ids=str,
)
def test_cell(cell):
    check(cell)


@pytest.mark.matrix
def test_documentation_is_what_was_observed():
    assert DOCUMENT.read_text() == document(), "run: python -m tests.integration.transformations"
