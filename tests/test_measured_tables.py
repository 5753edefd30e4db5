"""Measured tables and plots of the README and the documentation are of a run that is recorded."""

import pytest
from benchmarks import plots, records
from benchmarks.tables import TABLES, written, written_from


@pytest.mark.parametrize("file", TABLES)
def test_tables_are_those_of_the_newest_run(file):
    record = records.newest()
    assert written(file) == [written_from(record, table) for table in TABLES[file]]


@pytest.mark.parametrize("name", ["borders", "circuits"])
def test_plots_are_of_the_newest_run(name):
    assert records.newest().path.name in (plots.PICTURES / f"{name}.svg").read_text()
