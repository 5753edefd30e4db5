"""The decisions about each cell equal the golden file ``decisions.txt``."""

import pytest
from tests.conformance.decisions import (
    SETTINGS,
    describe_cell,
    describe_setting,
    list_cells,
    read_golden,
)


@pytest.mark.matrix
@pytest.mark.large
@pytest.mark.parametrize("setting", SETTINGS)
def test_decisions_are_those_of_the_golden_file(setting):
    # After a wanted change: python -m tests.conformance.decisions --record
    assert describe_setting(setting) == read_golden()[setting]


def test_some_decisions_are_those_of_the_golden_file():
    golden = read_golden()
    assert list(golden) == list(SETTINGS)
    assert sum(map(len, map(list_cells, SETTINGS))) >= 300
    for number, setting in enumerate(SETTINGS):
        cells = list_cells(setting)
        for line in describe_cell(setting, cells[7 * number % len(cells)]):
            assert line in golden[setting]
