"""Measured tables and plots of the README and the documentation are of a run that is recorded."""

import pytest
from benchmarks import mesh_scaling, plots, records
from benchmarks.tables import TABLES, written, written_from


@pytest.mark.parametrize("file", TABLES)
def test_tables_are_those_of_the_newest_run(file):
    record = records.newest()
    assert written(file) == [written_from(record, table) for table in TABLES[file]]


@pytest.mark.parametrize("name", ["borders", "circuits"])
def test_plots_are_of_the_newest_run(name):
    assert records.newest().path.name in (plots.PICTURES / f"{name}.svg").read_text()


def test_the_plot_of_states_over_devices_is_of_the_newest_run():
    assert mesh_scaling.newest().name in (plots.PICTURES / "mesh_scaling.svg").read_text()
