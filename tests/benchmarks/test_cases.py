"""Each benchmark case can be built, or says why not, for each framework."""

from benchmarks import records, run
from benchmarks.case import FRAMEWORKS, Case, Target
from benchmarks.cases import CASES
from benchmarks.measure import Outcome, Result
from benchmarks.report import rank_by_ratio, summarize


def test_each_case_has_a_program_or_a_reason_for_each_framework():
    missing = {
        f"{case.name}: {framework}"
        for case in CASES.values()
        for framework in FRAMEWORKS
        if framework not in case.builders and framework not in case.unavailable
    }
    assert missing == set()


def test_cases_are_ranked_with_the_worst_first():
    record = records.newest()
    rows = rank_by_ratio(record.results)
    ratios = [float(ratio) for _, _, ratio, _ in rows if ratio]
    assert ratios == sorted(ratios, reverse=True)
    result = next(r for r in record.results if r.case.title == rows[0][0])
    times = {name: outcome.run for name, outcome in result.outcomes.items() if outcome.run}
    own, _ = times.pop("bellhop"), times.pop("limit", None)
    assert rows[0][1] == min(times, key=times.get)
    assert float(rows[0][2]) == round(own / min(times.values()), 2)


def test_the_summary_counts_cases_with_a_peer_and_all_targets():
    def measure(bellhop, jax=None, limit=None, wrong=None):
        times = {"bellhop": bellhop, "jax": jax, "limit": limit}
        outcomes = {name: Outcome(run_s=[time] if time else []) for name, time in times.items()}
        targets = (Target("limit", 0.5),)
        return Result(Case("case", "a case", "a limit", {}, targets=targets), outcomes, wrong)

    ahead, behind, alone = measure(1.0, 2.0, 0.6), measure(3.0, 2.0, 0.6), measure(1.0)
    wrong = measure(1.0, 2.0, 0.6, wrong="1.0, not 2.0")
    summary = summarize([ahead, behind, alone, wrong])
    assert summary == "Faster than every peer: 1 of 2 cases. Targets met: 1 of 4."


def test_a_run_fails_where_bellhop_raises_and_not_where_a_peer_does():
    case = CASES["callback"]
    ours = Result(case, {"bellhop": Outcome("TypeError"), "jax": Outcome(run_s=[1.0])})
    theirs = Result(case, {"bellhop": Outcome(run_s=[1.0]), "jax": Outcome("TypeError")})
    wrong = Result(case, {"bellhop": Outcome(run_s=[1.0])}, wrong="1.0, not 2.0")
    assert [run._failed(result) for result in (ours, theirs, wrong)] == [True, False, True]
