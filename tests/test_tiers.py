"""What the tiers of tests leave out stands in what they run."""

import argparse
import itertools

import pytest
from tests.durations import choose_slow_tests
from tests.shares import parse_share, select_share
from tests.tiers import choose_covering

MATRICES = {
    "square": list(itertools.product("abc", range(3))),
    "oblong": list(itertools.product("ab", range(9), "xyz")),
    "with holes": [row for row in itertools.product("abcd", "abcd", range(3)) if row[0] <= row[1]],
    "uneven": [("a", 1), ("a", 2, True), ("b", 2, False)],
    "one axis": [(value,) for value in range(5)],
}


@pytest.mark.parametrize("strength", [1, 2])
@pytest.mark.parametrize("rows", MATRICES.values(), ids=MATRICES)
def test_every_combination_stands_in_a_chosen_row(rows, strength):
    def combinations(rows):
        size = min(strength, len(rows[0]))
        return {pair for row in rows for pair in itertools.combinations(enumerate(row), size)}

    assert combinations([rows[index] for index in choose_covering(rows, strength)]) == combinations(
        rows
    )


def test_few_rows_are_enough():
    assert len(choose_covering(MATRICES["square"], 1)) == 3
    assert len(choose_covering(MATRICES["oblong"], 1)) == 9
    assert 27 <= len(choose_covering(MATRICES["oblong"], 2)) <= 32


def test_rows_that_are_taken_in_any_case_are_kept():
    rows = MATRICES["oblong"]
    assert choose_covering(rows, 2, {5, 7}) >= {5, 7}
    assert choose_covering(rows, 1, set(range(len(rows)))) == set(range(len(rows)))


def test_each_test_is_in_one_of_the_shares():
    names = [f"test_file.py::test_it[{index}]" for index in range(300)]
    shares = [select_share(names, number, 3) for number in (1, 2, 3)]
    assert set().union(*shares) == set(names)
    assert sum(map(len, shares)) == len(names)
    assert min(map(len, shares)) > 80
    assert parse_share("2/3") == (2, 3)
    for wrong in ("3", "0/3", "4/3", "a/b"):
        with pytest.raises(argparse.ArgumentTypeError, match="expected a share"):
            parse_share(wrong)


def test_the_slowest_tests_are_chosen_until_the_rest_fit():
    seconds = {"x.py::a": 1.0, "x.py::b": 4.0, "x.py::c": 2.0, "x.py::d": 3.0, "y.py::e": 5.0}
    assert choose_slow_tests(seconds, kept=[], budget=15.0) == []
    assert choose_slow_tests(seconds, kept=[], budget=14.0) == ["x.py::b"]
    assert choose_slow_tests(seconds, kept=["x.py::b"], budget=10.0) == ["x.py::d", "x.py::c"]
    # The fastest tests of files may exceed the budget alone.
    assert choose_slow_tests(seconds, kept=[], budget=1.0) == ["x.py::b", "x.py::d", "x.py::c"]
