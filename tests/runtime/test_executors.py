"""C++ is generated from ``executors.toml``, and Python reads the same file."""

import importlib.util
import tomllib
from pathlib import Path

import pytest

from bellhop.circuits.backends.compiled.differentiable import internal_measurements
from bellhop.circuits.ir import device_measurements
from bellhop.circuits.ir.device_measurements import Measurement
from bellhop.circuits.ir.executors import Executor, Offer, Outcomes

RUNTIME = Path(__file__).parents[2] / "runtime"
TABLES = tomllib.loads((RUNTIME / "executors.toml").read_text())


def load_generator():
    spec = importlib.util.spec_from_file_location("gen", RUNTIME / "generate_executors.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_enumerations_are_those_of_the_file():
    assert [each.value for each in Outcomes] == list(TABLES["outcomes"])
    offered = {offer for kind in TABLES["measurements"].values() for offer in kind["engine"]}
    assert offered == {each.value for each in Offer}
    assert {Executor.ENGINE.value, Executor.PLUGIN.value} <= set(TABLES["measurements"]["expval"])
    classes = [
        each
        for each in (vars(device_measurements) | vars(internal_measurements)).values()
        if isinstance(each, type) and issubclass(each, Measurement) and hasattr(each, "kind")
    ]
    assert {each.kind for each in classes} == set(TABLES["measurements"])


def test_outcomes_for_an_order_of_differentiation():
    assert [Outcomes.ALL.get_outcome_code(order) for order in range(3)] == [1, 1, 2]
    assert [Outcomes.SHARED_RUNS.get_outcome_code(order) for order in range(3)] == [5, 5, 5]


def test_the_header_has_the_table():
    header = load_generator().make_header(TABLES)
    assert "kSharedRuns = 5," in header
    expval = "{true, true, true, true, false, true, Offer::Shots::kWithoutShots},  // expval"
    assert expval in header


def test_a_table_with_gaps_is_an_error():
    kinds = {"expval": {"code": 1, "engine": []}}
    with pytest.raises(ValueError, match="in the order of their codes"):
        load_generator().make_header({"outcomes": TABLES["outcomes"], "measurements": kinds})
    kinds = {"expval": {"code": 0, "engine": ["speed"]}}
    with pytest.raises(ValueError, match="has an unknown offer"):
        load_generator().make_header({"outcomes": TABLES["outcomes"], "measurements": kinds})
