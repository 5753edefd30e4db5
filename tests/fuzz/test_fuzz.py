"""What the fuzzer is made of works, and the first programs that it draws agree."""

import sys
import time

import pytest
from tests.fuzz.child import Child
from tests.fuzz.compare import Difference, compare
from tests.fuzz.judge import judge
from tests.fuzz.search import Search
from tests.fuzz.verdict import AGREES, Verdict

import bellhop


@pytest.mark.subprocess
def test_programs_that_it_draws_agree():
    search = Search(judge, deadline=time.monotonic() + 600, shrinking=0)
    failure = search.batch(seed=0, most=16)
    assert failure is None, f"{failure.source}\n{failure.verdict.details}"
    # A program that is drawn twice is judged once.
    assert set(search.counts) == {AGREES}
    assert search.counts[AGREES] > 12


@pytest.mark.large
def test_a_difference_is_found_and_shrunk():
    """A program with an effect is taken for a fault: the smallest has one statement."""
    search = Search(
        lambda source: Verdict("effect" if "'o" in source else AGREES),
        deadline=time.monotonic() + 600,
    )
    failures = [search.batch(seed) for seed in range(3)]
    assert any(failure and failure.source.count("note, 'o") == 1 for failure in failures)


def test_a_script_that_kills_its_process_is_a_verdict(tmp_path):
    worker = "import os, sys; sys.stdin.readline(); os.kill(os.getpid(), 11)"
    with Child(tmp_path / "stderr", (sys.executable, "-c", worker)) as child:
        assert child.judge("a script") == Verdict("dies of SIGSEGV")
        assert child.judge("another") == Verdict("dies of SIGSEGV")


def make_run(error, *seen, is_raised=True, **how):
    """Return a worker's result for a script whose only call raises an exception."""
    return {"outcomes": [(error, seen, how)], "raised": [error] if is_raised else []}


def make_returning_run(*seen, **how):
    """Return a worker's result for a script whose only call returns a number."""
    return make_run(1.0, *seen, is_raised=False, **how)


def test_effects_without_a_common_order_may_raise_in_any_order():
    ours = RuntimeError("o3", 1)
    found = make_run(ours, ("o3", (1,)), jit=True)
    assert compare(found, make_run(RuntimeError("u7", 1), ("u7", (1,)), jit=True)) == []
    with pytest.raises(Difference):
        compare(found, make_run(RuntimeError("o2", 1), ("o2", (1,)), jit=True))


def test_what_is_refused_before_it_runs_has_no_events():
    refused = make_run(
        TypeError(
            "in forward mode, as by jax.jvp, but its fwd and bwd rules define reverse mode only"
        ),
        is_raised=False,
    )
    reference = make_run(TypeError("no jvp rule"), ("o1", ()), is_raised=False)
    assert compare(refused, reference) == []


def test_both_branches_of_a_mapped_conditional_may_raise():
    ours = RuntimeError("o3", 1)
    found = make_run(ours, ("o3", (1,)), mapped=True)
    assert compare(found, make_returning_run(mapped=True)) == ["a branch that no row takes"]
    assert compare(found, make_run(RuntimeError("o2", 1), ("o2", (1,)), mapped=True)) == []
    with pytest.raises(Difference):
        compare(make_run(ours, ("o3", (1,))), make_returning_run())


def test_forward_mode_of_unused_values_need_not_raise():
    error = TypeError("can't apply forward-mode autodiff (jvp) to a custom_vjp function.")
    found = make_returning_run(("o1", ()), ("o2", ()))
    assert compare(found, make_run(error, ("o1", ()), is_raised=False)) == []
    with pytest.raises(Difference):
        compare(found, make_run(error, ("o3", ()), is_raised=False))
    with pytest.raises(Difference):
        compare(found, make_run(TypeError("no rule"), ("o1", ()), is_raised=False))


def test_programs_go_on_after_pure_calls_that_they_leave_out():
    text = "wire 3 is not in the circuit, which has wires 0 to 2"
    wires = make_run(bellhop.CircuitError(text), is_raised=False)
    reference = make_run(RuntimeError("p1", 1), ("p1", (1,)))
    assert compare(wires, reference) == []
    assert compare(make_run(RuntimeError("o2", 1), ("o2", (1,))), reference) == []
    with pytest.raises(Difference):
        compare(wires, make_run(RuntimeError("o1", 1), ("o1", (1,))))
    with pytest.raises(Difference):
        compare(make_run(TypeError("another"), is_raised=False), reference)
    with pytest.raises(Difference):
        compare(make_run(bellhop.CircuitError("another"), is_raised=False), reference)
    with pytest.raises(Difference):
        compare(make_run(RuntimeError("p1", 2), ("p1", (2,))), reference)


def test_xla_calls_pure_functions_before_loops_without_iterations():
    moved = make_returning_run(("p1", (1,)), derivative=True)
    assert compare(moved, make_returning_run(derivative=True)) == []
    raises = make_run(RuntimeError("p1", 1), ("p1", (1,)), jit=True)
    assert compare(raises, make_returning_run(jit=True)) == ["a loop without iterations"]
    with pytest.raises(Difference):
        compare(make_returning_run(("p1", (1,))), make_returning_run())
    with pytest.raises(Difference):
        compare(
            make_returning_run(("p1", (1,)), jit=True), make_returning_run(("p1", (2,)), jit=True)
        )


def test_xla_runs_circuits_before_loops_without_iterations():
    text = "wire 2 is not in the circuit, which has wires 0 to 0"
    moved = make_run(bellhop.CircuitError(text), is_raised=False, derivative=True)
    reason = "a circuit of a loop without iterations"
    assert compare(moved, make_returning_run(derivative=True)) == [reason]
    with pytest.raises(Difference):
        compare(make_run(bellhop.CircuitError(text), is_raised=False), make_returning_run())
    known = make_run(bellhop.CircuitError(text.replace("2", "0")), is_raised=False, derivative=True)
    with pytest.raises(Difference):
        compare(known, make_returning_run(derivative=True))
