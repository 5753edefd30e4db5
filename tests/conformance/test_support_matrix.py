"""Each cell of the support matrix is as the page says."""

import pytest
from tests import needs
from tests.conformance.support import CLIFFORD, check
from tests.conformance.support_page import PAGE, list_cells, write_page
from tests.conformance.unsupported import UNSUPPORTED, find_unsupported

CELLS = list_cells()


def _make_param(cell):
    """Return a parameter; the quick tier runs one cell of each device."""
    is_quick = cell.row == "expval" and cell.column == "value"
    marks = [] if is_quick else [pytest.mark.matrix]
    if cell.device == CLIFFORD:
        marks.append(needs.STIM.mark)
    return pytest.param(cell, id=str(cell), marks=marks)


@pytest.mark.axes(cell=lambda cell: (cell.row, cell.column))
@pytest.mark.parametrize("cell", list(map(_make_param, CELLS)))
@pytest.mark.filterwarnings("ignore")
def test_cell(cell):
    unsupported = find_unsupported(cell)
    if unsupported is None:
        check(cell, CELLS[cell])
        return
    with pytest.raises(Exception, match=unsupported.words):
        CELLS[cell](cell)


def test_page_is_up_to_date():
    assert PAGE.read_text() == write_page(), "run: python -m tests.conformance.support_page"


def test_all_reasons_have_cells():
    assert [entry for entry in UNSUPPORTED if not any(map(entry.has, CELLS))] == []
