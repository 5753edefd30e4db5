"""Each benchmark case can be built, or says why not, for each framework."""

from benchmarks.case import FRAMEWORKS
from benchmarks.cases import CASES


def test_each_case_has_a_program_or_a_reason_for_each_framework():
    missing = {
        f"{case.name}: {framework}"
        for case in CASES.values()
        for framework in FRAMEWORKS
        if framework not in case.builders and framework not in case.unavailable
    }
    assert missing == set()
