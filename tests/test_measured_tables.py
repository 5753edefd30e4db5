"""The measured tables of the README and the documentation are those of a run that is recorded."""

import pytest
from benchmarks import records
from benchmarks.tables import TABLES, table, written


@pytest.mark.parametrize("file", TABLES)
def test_tables_are_those_of_the_newest_run(file):
    assert written(file) == table(records.newest(), TABLES[file])
