"""Bars of loops: what is shown when the call has returned, and what is counted."""

import time

import jax
import jax.numpy as jnp
import pytest
from tests.frontend.progress_bars.bars import doubled, summed

import bellhop


@pytest.mark.parametrize("n", [0, 1, 7, 100])
def test_loops_of_known_length(n, shown):
    assert bellhop.qjit(lambda: summed(n))() == sum(range(n))
    assert shown() == [("sum", n, n)] if n else [("sum", 0, 0)]


@pytest.mark.parametrize("bounds", [(0, 5, 1), (10, 0, -3), (3, 3, 1), (2, 30, 4)])
def test_loops_of_computed_length(bounds, shown):
    @bellhop.qjit
    def f(low, high, step):
        return bellhop.for_loop(low, high, step, progress="f")(lambda i, total: total + i)(0)

    for _ in range(2):
        assert f(*bounds) == sum(range(*bounds))
        n = len(range(*bounds))
        assert shown() in ([("f", n, n)], [("f", n, None)])


def test_while_loops_count(shown):
    @bellhop.qjit
    def f(x):
        return bellhop.while_loop(lambda y: y > 1, progress="halve")(lambda y: y / 2)(x)

    assert f(12.0) == 0.75
    assert f(0.5) == 0.5
    assert shown() == [("halve", 4, 4), ("halve", 0, None)]


def test_without_a_description(shown):
    bellhop.qjit(lambda: summed(3, progress=""))()
    assert shown() == [("", 3, 3)]


def test_a_loop_without_a_bar_is_as_it_was():
    assert "bellhop_progress" not in _text(lambda: summed(3, progress=None))
    assert "bellhop_progress" in _text(lambda: summed(3))


def _text(function):
    compiled = bellhop.qjit(function)
    compiled()
    return compiled.lower().as_text()


def test_autograph(shown):
    @bellhop.qjit(autograph=True)
    def f(n, xs):
        total = 0.0
        for i in bellhop.progress(range(n), "range"):
            total += i
        for i, x in enumerate(bellhop.progress(xs, "array")):
            total += i * x
        for _ in bellhop.progress(range(3), "static"):
            total += 1
        return total

    assert f(4, jnp.array([1.0, 2.0])) == 6 + 2 + 3
    assert f.mlir.count("stablehlo.while") >= 3
    assert shown() == [("range", 4, 4), ("array", 2, 2), ("static", 3, 3)]


def test_autograph_in_a_plain_jit(shown):
    """Where no program of ours is traced, the loop is compiled all the same."""

    def f(n):
        total = 0
        for i in bellhop.progress(range(n), "range"):
            total += i
        return total

    assert jax.jit(bellhop.run_autograph(f))(4) == 6
    assert jax.jit(bellhop.qjit(f, autograph=True))(4) == 6
    assert shown(wait=True) == [("range", 4, 4)] * 2


def test_autograph_with_break(shown):
    @bellhop.qjit(autograph=True)
    def f(n):
        total = 0
        for i in bellhop.progress(range(n), "search"):
            if i == 3:
                break
            total += i
        return total

    assert f(10) == 3
    ((name, count, _),) = shown()
    assert name == "search"
    assert count in (3, 4)


def test_nested_loops_have_a_line_each(shown):
    @bellhop.qjit
    def f():
        @bellhop.for_loop(0, 5, 1, progress="outer")
        def outer(i, total):
            return bellhop.for_loop(0, 4, 1, progress="inner")(lambda j, t: t + i * j)(total)

        return outer(0)

    assert f() == 60
    assert sorted(shown()) == [("inner", 4, 4), ("outer", 5, 5)]


def test_inner_loops_do_not_flood(shown):
    @bellhop.qjit
    def f():
        return bellhop.for_loop(0, 300, 1)(lambda i, t: t + summed(2, "inner"))(0)

    start = time.monotonic()
    assert f() == 300
    looks = 10 * (time.monotonic() - start)
    seen = shown()
    assert set(seen) == {("inner", 2, 2)}
    assert len(seen) < 30 + looks


def test_loops_outside_of_programs(shown):
    assert doubled(1.0) == 64
    assert summed(5) == 10
    assert bellhop.while_loop(lambda x: x < 5, progress="while")(lambda x: x + 1)(0) == 5
    assert shown() == [("loop", 6, 6), ("sum", 5, 5), ("while", 5, 5)]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: bellhop.progress(None), TypeError, "while_loop"),
        (lambda: bellhop.progress(2.5), TypeError, "2.5"),
        (lambda: bellhop.progress(True), TypeError, "True"),
        (lambda: bellhop.progress(-1), ValueError, "-1"),
        (lambda: bellhop.progress(3, 4), TypeError, "expected a string as description"),
        (lambda: bellhop.for_loop(0, 3, 1, progress=True)(lambda i: None)(), TypeError, "string"),
        (lambda: bellhop.while_loop(bool, progress=1)(lambda i: None)(0), TypeError, "string"),
    ],
)
def test_bad_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_without_64_bit_types(run_script):
    script = """
    import bellhop

    def summed(n):
        return bellhop.for_loop(0, n, 1, progress="x")(lambda i, t: t + i)(0)

    def counted(n):
        return bellhop.while_loop(lambda i: i < n, progress="x")(lambda i: i + 1)(0)

    assert bellhop.qjit(lambda: summed(40))() == bellhop.qjit(summed)(40) == 780
    assert bellhop.qjit(counted)(9) == 9
    """
    run_script(script, BELLHOP_X64="0")


def test_a_loop_is_no_body():
    loops = {
        "for_loop": bellhop.for_loop(0, 3, 1),
        "while_loop": bellhop.while_loop(lambda x: x > 1, progress="shown twice"),
    }
    for name, loop in loops.items():
        with pytest.raises(
            TypeError,
            match=rf"expected the body of a loop.*bellhop.{name}\(..., progress='steps'\)",
        ):
            bellhop.progress(3, "steps")(loop(lambda *x: x[-1]))
