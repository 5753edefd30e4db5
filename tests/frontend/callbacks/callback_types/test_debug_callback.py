"""Callbacks for their effect: how often they run, with what, and in which order."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellhop


@pytest.fixture
def log():
    """A list, and a function that appends ``name`` and the value to it."""
    events = []

    def record(name, x):
        bellhop.debug.callback(lambda v: events.append((name, np.asarray(v).tolist())))(x)

    record.events = events
    return record


def test_both_names_are_one_function():
    assert bellhop.callback is bellhop.debug.callback


def test_runs_once_a_call_and_before_it_returns(form, log):
    f = form(lambda x: (log("a", x), 2 * x)[1])
    for i in range(3):
        assert f(float(i)) == 2.0 * i
        assert log.events[-1] == ("a", float(i))
    assert len(log.events) == 3


def test_result_of_the_function_is_dropped(form):
    for result in (5, "text", object(), [1, 2], np.ones(3)):
        f = form(lambda x, r=result: (bellhop.debug.callback(lambda _: r)(x), x)[1])
        assert f(2.0) == 2.0
    assert form(lambda x: bellhop.debug.callback(float)(x))(2.0) is None


def test_arguments_are_pytrees_and_keywords(form):
    seen = []

    def f(x):
        bellhop.debug.callback(lambda *args, **kwargs: seen.append((args, kwargs)))(
            {"a": x}, (x + 1, None), key=[x]
        )
        return x

    form(f)(1.0)
    assert seen == [(({"a": 1.0}, (2.0, None)), {"key": [1.0]})]


def test_no_arguments(form):
    seen = []
    form(lambda x: (bellhop.debug.callback(lambda: seen.append(1))(), x)[1])(1.0)
    assert seen == [1]


def test_only_effects(form, log):
    assert form(lambda x: log("a", x))(1.0) is None
    assert log.events == [("a", 1.0)]


def test_equal_calls_are_not_merged(form, log):
    form(lambda x: (log("a", x), log("a", x), x)[2])(1.0)
    assert log.events == [("a", 1.0)] * 2


def test_order_in_straight_line(form, log):
    def f(x):
        for i in range(20):
            log(i, x * i)
        return x

    form(f)(2.0)
    assert log.events == [(i, 2.0 * i) for i in range(20)]


def program(log):
    """A function with loops and branches, and the events of one call in Python's order."""

    def traced(x):
        log("begin", x)

        def step(carry, i):
            log("step", i)

            def odd(v):
                log("odd", v)
                return v + 1

            def even(v):
                log("even", v)
                log("even again", v)
                return v * 2

            carry = jax.lax.cond(i % 2 == 1, odd, even, carry)
            carry = jax.lax.fori_loop(0, i, lambda j, c: (log("inner", j), c + j)[1], carry)
            return carry, carry

        carry, _ = jax.lax.scan(step, x, jnp.arange(4))
        log("between", carry)

        def condition(v):
            log("condition", v)
            return v < 100

        result = jax.lax.while_loop(condition, lambda v: (log("body", v), 2 * v)[1], carry)
        log("end", result)
        return result

    def plain(x):
        events = [("begin", x)]
        carry = x
        for i in range(4):
            events.append(("step", i))
            if i % 2 == 1:
                events.append(("odd", carry))
                carry += 1
            else:
                events += [("even", carry), ("even again", carry)]
                carry *= 2
            for j in range(i):
                events.append(("inner", j))
                carry += j
        events.append(("between", carry))
        while True:
            events.append(("condition", carry))
            if carry >= 100:
                break
            events.append(("body", carry))
            carry *= 2
        events.append(("end", carry))
        return events

    return traced, plain


def test_order_over_loops_and_branches(form, log):
    traced, plain = program(log)
    f = form(traced)
    for x in (1.0, 7.0):
        log.events.clear()
        f(x)
        assert log.events == plain(x)


@pytest.mark.parametrize("form", [bellhop.qjit, jax.jit], ids=["qjit", "jit"])
def test_order_among_heavy_independent_work(form, log):
    def f(x, y):
        for i in range(30):
            value = y + i
            if i % 3 == 0:
                # A call whose argument takes long to compute, before calls that are ready.
                matrix = x
                for _ in range(3):
                    matrix = jnp.tanh(matrix @ x + i)
                value = matrix.ravel()[:300] * 0 + i
            log(i, value[0])
        return y

    g = form(f)
    for _ in range(3):
        log.events.clear()
        g(jnp.full((100, 100), 1e-3), jnp.zeros(300))
        assert log.events == [(i, float(i)) for i in range(30)]


def test_order_across_functions(form, log):
    @jax.jit
    def inner(x):
        log("inner", x)
        return x + 1

    def f(x):
        log("before", x)
        x = inner(inner(x))
        log("after", x)
        return x

    form(f)(0.0)
    assert log.events == [("before", 0.0), ("inner", 0.0), ("inner", 1.0), ("after", 2.0)]


def test_order_of_calls_of_two_programs(log):
    f = bellhop.qjit(lambda x: (log("f", x), x)[1])
    g = bellhop.qjit(lambda x: (log("g", x), x)[1])
    f(1.0), g(2.0), f(3.0)
    assert log.events == [("f", 1.0), ("g", 2.0), ("f", 3.0)]


def test_vmap_runs_once_for_each_element_in_order(form, log):
    form(jax.vmap(lambda x: (log("a", x), x)[1]))(jnp.arange(4.0))
    assert log.events == [("a", float(i)) for i in range(4)]


def test_vmap_runs_once_where_nothing_is_mapped(form, log):
    form(lambda xs, y: jax.vmap(lambda x: (log("a", y), x)[1])(xs))(jnp.arange(4.0), 7.0)
    assert log.events == [("a", 7.0)]


def test_nested_vmap_runs_once_for_each_element_in_order(form, log):
    f = form(jax.vmap(jax.vmap(lambda x: (log("a", x), x)[1])))
    f(jnp.arange(6.0).reshape(2, 3))
    assert log.events == [("a", float(i)) for i in range(6)]


@pytest.mark.parametrize(
    "derive", [jax.grad, jax.value_and_grad, jax.jacrev, jax.jacfwd], ids=lambda d: d.__name__
)
def test_derivatives_run_it_once_on_primal_values(form, log, derive):
    form(derive(lambda x: (log("a", x), x**2)[1]))(3.0)
    assert log.events == [("a", 3.0)]


def test_grad_of_scan(form, log):
    def f(x):
        return jax.lax.scan(lambda c, i: ((log("s", i), c * x)[1], c), 1.0, jnp.arange(3))[0]

    assert form(jax.grad(f))(2.0) == 12.0
    assert log.events == [("s", i) for i in range(3)]


def test_grad_of_cond_and_of_while_forward(form, log):
    def f(x):
        y = jax.lax.cond(x > 0, lambda v: (log("yes", v), v**2)[1], lambda v: v, x)
        return jax.lax.fori_loop(0, 2, lambda i, v: (log("loop", i), v * x)[1], y)

    assert form(jax.grad(f))(3.0) == 4 * 27.0
    assert log.events == [("yes", 3.0), ("loop", 0), ("loop", 1)]


def test_vmap_of_grad(form, log):
    form(jax.vmap(jax.grad(lambda x: (log("a", x), x**2)[1])))(jnp.arange(3.0))
    assert log.events == [("a", float(i)) for i in range(3)]


def test_checkpointed_loop_runs_it_each_iteration(form, log):
    """JAX's own rule takes what does not change out of such a loop."""
    weight = jnp.array([2.0, 3.0])

    def f(x):
        def body(carry, _):
            log("constant", 1.0)
            log("carry", carry)
            scaled = jnp.sin(carry) * weight.sum() * jnp.cos(weight).prod()
            return scaled, carry

        carry, carries = jax.lax.scan(body, x, None, length=3)
        return carry + carries.sum()

    expected = jax.grad(f)(0.5)
    before = list(log.events)
    log.events.clear()
    np.testing.assert_allclose(form(jax.grad(jax.checkpoint(f)))(0.5), expected)
    assert [name for name, _ in log.events] == ["constant", "carry"] * 3
    assert [name for name, _ in before] == ["constant", "carry"] * 3


def test_checkpoint_does_not_run_it_again(form, log):
    def f(x):
        @jax.checkpoint
        def g(y):
            log("first", y)
            z = jnp.sin(y)
            log("second", z)
            return jnp.sin(z)

        return g(x)

    form(jax.grad(f))(0.0)
    assert [name for name, _ in log.events] == ["first", "second"]


def test_custom_vjp_rules_may_log(form, log):
    @jax.custom_vjp
    def f(x):
        log("primal", x)
        return x**2

    f.defvjp(
        lambda x: ((log("fwd", x), x**2)[1], x),
        lambda x, dy: ((log("bwd", dy), 2 * x * dy)[1],),
    )
    assert form(jax.grad(lambda x: 3 * f(x)))(2.0) == 12.0
    assert log.events == [("fwd", 2.0), ("bwd", 3.0)]


def test_effects_keep_their_place_among_pure_calls():
    events = []
    pure = bellhop.pure_callback(lambda x: (events.append(("pure", float(x))), 2 * x)[1], float)

    @bellhop.qjit
    def f(x):
        bellhop.debug.callback(lambda v: events.append(("debug", float(v))))(x)
        y = pure(x)
        bellhop.debug.callback(lambda v: events.append(("debug", float(v))))(y)
        return y

    f(1.0)
    assert [event for event in events if event[0] == "debug"] == [("debug", 1.0), ("debug", 2.0)]
    assert ("pure", 1.0) in events


@pytest.mark.parametrize("ordered", [False, True])
def test_calls_keep_program_order_asked_or_not(form, ordered):
    seen = []

    def f(x):
        for i in range(10):
            bellhop.callback(lambda v, i=i: seen.append((i, float(v))), ordered=ordered)(x)
        return x

    form(f)(1.0)
    assert seen == [(i, 1.0) for i in range(10)]


def test_asynchronous_calls_are_made_by_another_thread_in_order(form):
    seen, threads = [], set()

    def log(i, v):
        threads.add(threading.get_ident())
        seen.append((int(i), float(v)))

    f = form(
        lambda x: (
            [bellhop.debug.callback(log, asynchronous=True)(i, x * i) for i in range(10)] and x
        )
    )
    f(2.0)
    bellhop.barrier_wait()
    assert seen == [(i, 2.0 * i) for i in range(10)]
    assert threads.isdisjoint({threading.get_ident()})
    assert len(threads) == 1


def test_asynchronous_calls_are_made_for_each_mapped_element(form):
    seen = []
    callback = bellhop.debug.callback(lambda v: seen.append(float(v)), asynchronous=True)
    form(jax.vmap(lambda x: (callback(x), x)[1]))(jnp.arange(4.0))
    bellhop.barrier_wait()
    assert seen == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("wrong", [None, 3, "f"])
def test_callback_takes_a_function(wrong):
    with pytest.raises(TypeError, match="callback takes a function, got"):
        bellhop.debug.callback(wrong)


def test_program_that_exits_at_once_has_run_everything(run_script):
    out = run_script(
        """
        import bellhop, os
        @bellhop.qjit
        def f(x):
            for i in range(50):
                bellhop.debug.print("{} {x}", i, x=x)
            return x
        f(1.0)
        """
    )
    assert out.split("\n")[:-1] == [f"{i} 1.0" for i in range(50)]
