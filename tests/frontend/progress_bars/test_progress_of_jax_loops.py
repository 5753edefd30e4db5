"""Bars of JAX's own loops and of Python's, whose bodies are told how often they run."""

import re
import time

import jax
import jax.numpy as jnp
import pytest
from tests.frontend.progress_bars.bars import summed

import bellhop
from bellhop_runtime import look_at_bars


def step(carry, x):
    return carry + x, 2 * x


LOOPS = {
    "scan": lambda body, n: jax.lax.scan(body(step), 0.0, jnp.arange(float(n)))[0],
    "fori": lambda body, n: jax.lax.fori_loop(0, n, body(lambda i, x: x + i), 0.0),
    "map": lambda body, n: jnp.sum(jax.lax.map(body(lambda x: x), jnp.arange(float(n)))),
}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("compiler", [bellhop.qjit, jax.jit, lambda f: f], ids=["qjit", "jit", "-"])
def test_bodies_of_jax_loops(loop, compiler, shown):
    f = compiler(lambda: LOOPS[loop](bellhop.progress(6, loop), 6))
    assert f() == 15
    assert f() == 15
    assert shown(wait=True) == [(loop, 6, 6)] * 2


@pytest.mark.gpu
@pytest.mark.parametrize("loop", LOOPS)
def test_loops_in_regions_on_a_gpu(loop, shown):
    f = bellhop.qjit(
        bellhop.accelerate(lambda: LOOPS[loop](bellhop.progress(6, loop), 6), dev="gpu")
    )
    assert f() == 15
    assert shown(wait=True) == [(loop, 6, 6)]


def test_a_body_that_is_decorated_once(shown):
    body = bellhop.progress(4, "body")(step)
    f = bellhop.qjit(lambda xs: jax.lax.scan(body, 0.0, xs))
    for _ in range(3):
        f(jnp.arange(4.0))
    assert shown() == [("body", 4, 4)] * 3


def test_a_bar_that_was_promised_more_ends_with_the_program(shown):
    f = bellhop.qjit(lambda xs: jax.lax.scan(bellhop.progress(9, "nine")(step), 0.0, xs))
    f(jnp.arange(4.0))
    assert shown() == [("nine", 4, 9)]


@pytest.mark.parametrize("total", [3, 20])
def test_a_body_that_runs_more_often_than_was_told_has_another_bar(total, shown):
    f = bellhop.qjit(lambda xs: jax.lax.scan(bellhop.progress(total, "more")(step), 0.0, xs))
    f(jnp.arange(2.0 * total))
    assert set(shown()) == {("more", total, total)}


@pytest.mark.parametrize(("total", "n"), [(0, 3), (2, 30), (3, 7)])
def test_a_bar_that_was_told_too_little_counts(total, n, shown):
    f = bellhop.qjit(lambda xs: jax.lax.scan(bellhop.progress(total, "more")(step), 0.0, xs))
    f(jnp.arange(float(n)))
    assert shown()[-1] == ("more", n, None)


def test_a_body_of_several_loops_has_one_bar(shown):
    body = bellhop.progress(55, "all")(step)

    @bellhop.qjit
    def f():
        total = 0.0
        for n in (1, 30, 24):
            total = jax.lax.scan(body, total, jnp.ones(n))[0]
        return total

    assert f() == 55
    assert shown() == [("all", 55, 55)]


@pytest.mark.parametrize("loop", [*LOOPS, "for_loop"])
def test_short_iterations_need_not_tell(loop, shown):
    if loop == "for_loop":
        f = bellhop.qjit(lambda: summed(40, loop))
    else:
        f = bellhop.qjit(lambda: LOOPS[loop](bellhop.progress(40, loop), 40))
    assert f() == 780
    told_in_conditional = r'stablehlo\.if"[^}]*"callback\.call"[^}]*kind = "progress"'
    assert re.search(told_in_conditional, f.mlir_opt)
    assert shown() == [(loop, 40, 40)]


def test_loops_of_long_iterations_tell_each_time(shown):
    seen = []

    @bellhop.pure_callback
    def slow(x) -> float:
        time.sleep(0.02)
        seen.extend(look[5] for look in look_at_bars())
        return x

    f = bellhop.qjit(
        lambda: jax.lax.scan(
            bellhop.progress(20, "slow")(lambda x, _: (slow(x + 1.0), None)), 0.0, length=20
        )[0]
    )
    assert f() == 20
    shown()
    assert set(seen) >= set(range(2, 20))


def test_total_computed_by_the_program(shown):
    @bellhop.qjit
    def f(n):
        return jax.lax.fori_loop(0, n, bellhop.progress(n, "n")(lambda i, x: x + i), 0)

    assert f(5) == 10
    assert shown() in ([("n", 5, 5)], [("n", 5, None)])


def test_loops_of_python(shown):
    assert list(bellhop.progress(range(3), "three")) == [0, 1, 2]
    assert list(bellhop.progress(iter("ab"), "two")) == ["a", "b"]
    assert shown() == [("three", 3, 3), ("two", 2, None)]


def test_loops_of_bellhop_without_compilation(shown):
    @bellhop.qjit
    def f(n):
        bellhop.for_loop(0, n, 1, progress="for")(lambda i, x: x + i)(0)
        return bellhop.while_loop(lambda x: x < 3, progress="while")(lambda x: x + 1)(0)

    with jax.disable_jit():
        assert f(3) == 3
    assert shown() == [("for", 3, 3), ("while", 3, None)]


def test_a_decorated_body_in_a_loop_of_python(shown):
    body = bellhop.progress(3, "body")(lambda x: x + 1)
    for _ in range(2):
        for i in range(3):
            assert body(i) == i + 1
    assert shown() == [("body", 3, 3)] * 2
