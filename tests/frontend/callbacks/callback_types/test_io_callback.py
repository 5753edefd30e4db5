"""Callbacks with side effects and results: exactly once, in order where asked for."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellhop

ORDERED = pytest.mark.parametrize("ordered", [False, True], ids=["unordered", "ordered"])


@pytest.fixture
def seen():
    return []


@pytest.fixture
def count(seen):
    """Make an io_callback that keeps its argument and returns how many it has."""

    def make(ordered=False):
        return bellhop.io_callback(
            lambda x: (seen.append(np.asarray(x).tolist()), float(len(seen)))[1],
            float,
            ordered=ordered,
        )

    return make


@ORDERED
def test_values_and_counts(form, count, seen, ordered):
    call = count(ordered)
    f = form(lambda x: call(x) + 10 * call(x + 1))
    for i in range(3):
        result = f(float(i))
        assert sorted(seen[-2:]) == [i, i + 1]
        if ordered:
            assert result == 2 * i + 1 + 10 * (2 * i + 2)
        assert len(seen) == 2 * i + 2


@ORDERED
def test_equal_calls_are_not_merged(form, count, seen, ordered):
    call = count(ordered)
    assert form(lambda x: call(x) + call(x))(1.0) == 3.0
    assert seen == [1.0, 1.0]


@ORDERED
def test_unused_results_run(form, count, seen, ordered):
    call = count(ordered)

    def f(x):
        call(x)
        jax.lax.scan(lambda c, i: (c, (call(i), None)[1]), 0.0, jnp.arange(3.0))
        jax.lax.cond(x > 0, lambda: (call(x + 10), None)[1], lambda: None)
        jax.lax.while_loop(lambda i: i < 2, lambda i: (call(i + 20.0), i + 1)[1], 0)
        jax.checkpoint(lambda v: (call(v + 30), v)[1])(x)
        jax.jit(lambda v: (call(v + 40), v)[1])(x)
        return x

    assert form(f)(1.0) == 1.0
    expected = [1, 0, 1, 2, 11, 20, 21, 31, 41]
    assert (seen if ordered else sorted(seen)) == (expected if ordered else sorted(expected))


@ORDERED
@pytest.mark.parametrize("flag", [True, False])
def test_cond_runs_the_branch_that_is_taken(form, count, seen, ordered, flag):
    call = count(ordered)
    f = form(lambda p, x: jax.lax.cond(p, lambda v: call(v), lambda v: 7.0 + v, x))
    assert f(flag, 3.0) == (1.0 if flag else 10.0)
    assert seen == [3.0] * flag


def test_order_with_debug_callbacks_over_control_flow(form, count, seen):
    call = count(ordered=True)

    def f(x):
        def step(c, i):
            bellhop.debug.callback(lambda v: seen.append(("debug", int(v))))(i)
            return c + call(i), None

        c, _ = jax.lax.scan(step, x, jnp.arange(3))
        return jax.lax.fori_loop(0, 2, lambda i, c: (call(100 + i), c)[1], c)

    assert form(f)(0.0) == 2.0 + 4.0 + 6.0
    assert seen == [("debug", 0), 0, ("debug", 1), 1, ("debug", 2), 2, 100, 101]


def test_vmap_of_an_unordered_one_calls_once_for_each_element(form, seen):
    def keep(x):
        seen.append(float(x))
        return 2 * x

    f = form(jax.vmap(bellhop.io_callback(keep, float)))
    np.testing.assert_array_equal(f(jnp.arange(4.0)), 2 * jnp.arange(4.0))
    assert sorted(seen) == [0, 1, 2, 3]
    seen.clear()
    xs = jnp.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(
        form(jax.vmap(jax.vmap(bellhop.io_callback(keep, float))))(xs), 2 * xs
    )
    assert sorted(seen) == [0, 1, 2, 3, 4, 5]


def test_vmap_of_an_unused_result_runs(form, seen):
    io = bellhop.io_callback(lambda x: seen.append(float(x)))
    form(jax.vmap(lambda x: (io(x), x)[1]))(jnp.arange(3.0))
    assert sorted(seen) == [0, 1, 2]


def test_vmap_of_an_ordered_one_is_an_error(form, seen):
    def write(x):
        seen.append(x)

    f = form(jax.vmap(bellhop.io_callback(write, ordered=True)))
    with pytest.raises(ValueError, match=r"io_callback 'write' \(called from .*is ordered"):
        f(jnp.arange(3.0))
    assert seen == []


@ORDERED
def test_vmap_never_runs_branches_that_are_not_taken(form, seen, ordered):
    io = bellhop.io_callback(lambda: seen.append(1), ordered=ordered)
    f = form(jax.vmap(lambda x: jax.lax.cond(x > 0, lambda: (io(), x)[1], lambda: x)))
    with pytest.raises(NotImplementedError, match="vmap-of-cond"):
        f(jnp.arange(3.0))
    assert seen == []


@ORDERED
@pytest.mark.parametrize("derive", [jax.grad, jax.jacfwd, jax.hessian], ids=lambda d: d.__name__)
def test_derivatives_of_what_does_not_flow_in(form, count, seen, ordered, derive):
    call = count(ordered)
    f = form(derive(lambda x, y: call(y) * x**2))
    assert f(3.0, 5.0) == (2.0 if derive is jax.hessian else 6.0)
    assert seen == [5.0]


@ORDERED
def test_grad_of_loops_and_checkpoint(form, count, seen, ordered):
    call = count(ordered)

    def f(x, ys):
        c, _ = jax.lax.scan(lambda c, y: (c * x + call(y), None), 0.0, ys)
        return c + jax.checkpoint(lambda v: jnp.sin(v) * call(jnp.float64(9.0)))(x)

    def plain(x):
        return (1 * x + 2) * x + 3 + jnp.sin(x) * 4

    value, slope = form(jax.value_and_grad(f))(2.0, jnp.arange(3.0))
    assert (seen if ordered else sorted(seen)) == [0, 1, 2, 9]
    if ordered:
        np.testing.assert_allclose([value, slope], jax.value_and_grad(plain)(2.0))


@ORDERED
def test_integers_under_grad(form, seen, ordered):
    io = bellhop.io_callback(lambda n: (seen.append(int(n)), 2 * n)[1], int, ordered=ordered)
    f = form(jax.grad(lambda x, n: x * io(n + jnp.asarray(x > 0, int))))
    assert f(3.0, 4) == 10.0
    assert seen == [5]


@ORDERED
def test_differentiated_values_are_refused(form, seen, ordered):
    def write(x):
        seen.append(x)

    io = bellhop.io_callback(write, ordered=ordered)
    with pytest.raises(
        bellhop.DifferentiableCompileError, match=r"io_callback 'write' .* differentiated argument"
    ):
        form(jax.grad(lambda x: (io(x), x)[1]))(1.0)
    assert seen == []
    form(jax.grad(lambda x: (io(jax.lax.stop_gradient(x)), x)[1]))(1.0)
    assert seen == [1.0]


def test_arguments_may_be_kept_and_trees_are_taken(form, seen):
    @bellhop.io_callback(result_type={"a": float, "b": jax.ShapeDtypeStruct((2,), np.int64)})
    def keep(tree, *, scale):
        seen.append(tree["x"])
        return {"a": float(scale), "b": np.array([1, 2])}

    result = form(lambda x: keep({"x": x}, scale=x[0]))(jnp.arange(3.0) + 5)
    assert result["a"] == 5.0
    np.testing.assert_array_equal(result["b"], [1, 2])
    np.testing.assert_array_equal(seen[0], [5, 6, 7])


def test_annotations_declare_results(form):
    def one() -> float:
        return 1.0

    assert form(lambda: bellhop.io_callback(one)())() == 1.0
    assert form(lambda: bellhop.io_callback(lambda: 5)())() is None


def test_wrong_results_and_exceptions_arrive(form):
    with pytest.raises(Exception, match="io_callback '<lambda>' returned int64"):
        form(bellhop.io_callback(lambda: np.int64(1), float))()

    def fail(x):
        raise KeyError("mine")

    with pytest.raises(Exception, match="mine"):
        form(bellhop.io_callback(fail))(1.0)


@pytest.mark.parametrize("wrong", [3, float, "f"])
def test_takes_a_function(wrong):
    with pytest.raises(TypeError, match="io_callback takes a function first"):
        bellhop.io_callback(wrong)


def scan_of(call):
    return lambda x: jax.lax.scan(lambda c, _: (c * x + call(), c), 1.0, None, length=3)[0]


def nested_scan_of(call):
    return lambda x: jax.lax.scan(lambda c, _: (c * scan_of(call)(x), c), 1.0, None, length=2)[0]


def jitted_in_scan_of(call):
    return scan_of(lambda: jax.jit(call)())


def taken_in_scan_of(call):
    def f(x):
        def step(c, i):
            return c * x + jax.lax.cond(i > 0, call, lambda: 0.0), c

        return jax.lax.scan(step, 1.0, jnp.arange(3))[0]

    return f


def fori_of(call):
    return lambda x: jax.lax.fori_loop(0, 3, lambda _, c: c * x + call(), x)


@functools.cache
def remove_calls(program, derive):
    return derive(program(lambda: jnp.float64(2.0)))(1.5)


@pytest.mark.parametrize(
    ("program", "count"),
    [
        (scan_of, 3),
        (nested_scan_of, 6),
        (jitted_in_scan_of, 3),
        (taken_in_scan_of, 2),
        (fori_of, 3),
    ],
)
@pytest.mark.parametrize(
    "derive",
    [jax.grad, jax.jacfwd, jax.hessian],
    ids=["grad", "jacfwd", "hessian"],
)
@pytest.mark.parametrize("flavour", ["unordered", "ordered", "debug"])
def test_calls_that_do_not_change_in_a_loop_are_made_each_iteration(
    form, seen, program, count, derive, flavour
):
    # Reverse mode moves out of loops what is the same in each iteration; an effect is not.
    def keep():
        seen.append(1)
        return 2.0

    def debug():
        bellhop.debug.callback(keep)()
        return 2.0

    call = (
        debug
        if flavour == "debug"
        else bellhop.io_callback(keep, float, ordered=flavour == "ordered")
    )
    differentiated = form(derive(program(call)))
    if program is taken_in_scan_of and flavour != "debug" and derive is not jax.grad:
        with pytest.raises(NotImplementedError, match="effect not supported in vmap-of-cond"):
            differentiated(1.5)
        return
    observed = differentiated(1.5)
    assert len(seen) == count
    np.testing.assert_allclose(observed, remove_calls(program, derive))


def test_vmap_of_grad_of_a_loop(form, seen):
    io = bellhop.io_callback(lambda: (seen.append(1), 2.0)[1], float)
    xs = jnp.array([0.5, 1.5])
    observed = form(jax.vmap(jax.grad(scan_of(io))))(xs)
    assert len(seen) == 3
    np.testing.assert_allclose(observed, jax.vmap(jax.grad(scan_of(lambda: 2.0)))(xs))


@ORDERED
def test_a_checkpointed_loop_calls_once_an_iteration(form, seen, ordered):
    io = bellhop.io_callback(lambda *_: (seen.append(1), 2.0)[1], float, ordered=ordered)
    observed = form(jax.grad(jax.checkpoint(scan_of(io))))(1.5)
    assert len(seen) == 3
    np.testing.assert_allclose(observed, jax.grad(scan_of(lambda: 2.0))(1.5))

    def body(c, _):
        return jax.checkpoint(lambda c: jnp.sin(c) * io())(c), None

    form(jax.grad(lambda x: jax.lax.scan(body, x, None, length=3)[0]))(1.5)
    assert len(seen) == 6

    def f(x):
        return jax.lax.scan(lambda c, i: (jnp.sin(c) * io(i), None), x, jnp.arange(3))[0]

    form(jax.grad(jax.checkpoint(f)))(1.5)
    assert len(seen) == 9


def test_a_callable_says_what_it_is():
    assert repr(bellhop.io_callback(print, None)) == (
        "<io_callback 'print': call it with the arguments>"
    )
    assert repr(bellhop.pure_callback(abs, float)) == "<pure_callback 'abs'>"
